// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {

struct TokenSet::Impl {
  std::string file;
  Description description;
  StoredInteger type;
  ChunkReader tokens;
  std::string digest;
};

TokenSet::TokenSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenSet::TokenSet(TokenSet&&) noexcept = default;
TokenSet& TokenSet::operator=(TokenSet&&) noexcept = default;
TokenSet::~TokenSet() = default;

TokenSet TokenSet::open(const std::filesystem::path& file) {
  constexpr std::size_t kCache = 16 << 20;
  OpenSet set = open_set(file);
  require(set.description.kind == kTokens,
          "\"{}\" contains {}, but tokens are expected; make a set of them with \"distdl data import text\"",
          file.string(), set.description.kind);
  const auto spec = datasets_of(set.description)[0];
  auto chunks = open_chunks(set, file, spec, kCache);
  auto digest = digest_of(set.description, std::array<const ChunkReader*, 1>{&chunks});
  return TokenSet(std::make_unique<Impl>(
      Impl{file.string(), std::move(set.description), spec.type, std::move(chunks), std::move(digest)}));
}

const std::string& TokenSet::digest() const noexcept {
  return impl_->digest;
}

const Description& TokenSet::description() const noexcept {
  return impl_->description;
}

void TokenSet::read(std::int64_t first, std::span<std::int32_t> tokens) {
  auto& chunks = impl_->tokens;
  const auto count = static_cast<std::int64_t>(tokens.size());
  require(first >= 0 && count <= chunks.rows() && first <= chunks.rows() - count,
          "tokens {} to {} are outside the data set of {}", first, first + count - 1, chunks.rows());
  const auto classes = static_cast<std::int32_t>(impl_->description.classes);
  const auto widen = [&](auto stored) {
    std::copy(stored.begin(), stored.end(), tokens.begin());
    tokens = tokens.subspan(stored.size());
  };
  for (std::int64_t at = first; at < first + count;) {
    const auto bytes = chunks.chunk(at / chunks.rows_per_chunk());
    const auto skip = static_cast<std::size_t>(at % chunks.rows_per_chunk());
    const auto taken = std::min(bytes.size() / chunks.row_bytes() - skip, tokens.size());
    if (impl_->type == StoredInteger::u8)
      widen(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()) + skip, taken));
    else
      widen(std::span(reinterpret_cast<const std::uint16_t*>(bytes.data()) + skip, taken));
    auto* const got = tokens.data() - taken;
    const auto* wrong = std::find_if(got, tokens.data(), [&](std::int32_t token) { return token >= classes; });
    if (wrong != tokens.data())
      throw StorageError(
          fmt::format("\"{}\" is damaged: token {} is {}, outside the vocabulary 0 to {}; create the file "
                      "again",
                      impl_->file, at + (wrong - got), *wrong, classes - 1),
          ExitCode::corrupt);
    at += static_cast<std::int64_t>(taken);
  }
}

}  // namespace distdl::data
