// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <new>

#include <openssl/evp.h>
#include <zstd.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/packed_text.hpp>

namespace distdl::data {
namespace {
constexpr int kLevel = 9;  ///< a tokenizer of 128,000 tokens takes half a second, and a third of the bytes

/// Base64 has four letters for three bytes.
std::string to_base64(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // and a zero byte at the end
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                        reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string from_base64(const std::string& text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length =
      ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                        reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  const auto padding = text.size() - std::min(text.size(), text.find_last_not_of('=') + 1);
  require<StorageError>(length >= 0 && padding <= 2 && text.size() % 4 == 0, "{}",
                        "a packed text is damaged: it is no base64");
  bytes.resize(static_cast<std::size_t>(length) - std::min(static_cast<std::size_t>(length), padding));
  return bytes;
}
}  // namespace

std::string packed_text(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), kLevel);
  if (ZSTD_isError(size)) throw std::bad_alloc();  // there is room for any text
  packed.resize(size);
  return to_base64(packed);
}

std::string unpacked_text(const std::string& packed, std::size_t most) {
  const auto refuse = [](const char* why) {
    throw StorageError(fmt::format("a packed text is damaged: {}", why), ExitCode::corrupt);
  };
  if (packed.size() > most) refuse("it is too long");
  const std::string bytes = from_base64(packed);
  const auto size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > most)
    refuse("its length is unknown");
  std::string text(size, '\0');
  const std::size_t got = ZSTD_decompress(text.data(), text.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) || got != size) refuse(ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it is too short");
  return text;
}

}  // namespace distdl::data
