// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <distdl/base/errors.hpp>
#include <distdl/base/known_formats.hpp>
#include <distdl/data/format/npy_header.hpp>
#include <distdl/data/format/token_file.hpp>

namespace distdl::data {

struct TokenNumber {
  std::string_view name;  ///< as NumPy calls the type
  std::size_t size;       ///< bytes
  void (*widen)(std::span<const std::byte> bytes, std::span<std::int64_t> numbers);
};

namespace {
constexpr std::size_t kTokenBytes = 64 << 10;  ///< bytes read at once

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t place) {
  T value{};
  std::memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

template <class T>
void widen(std::span<const std::byte> bytes, std::span<std::int64_t> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(number_at<T>(bytes, i * sizeof(T)));  // beyond int64: negative
}

template <class T>
constexpr TokenNumber number_row(std::string_view name) {
  return {name, sizeof(T), &widen<T>};
}

constexpr std::array kNumbers{number_row<std::uint8_t>("|u1"), number_row<std::uint16_t>("<u2"),
                              number_row<std::int16_t>("<i2"), number_row<std::uint32_t>("<u4"),
                              number_row<std::int32_t>("<i4"), number_row<std::uint64_t>("<u8"),
                              number_row<std::int64_t>("<i8")};
constexpr std::string_view kUint16 = "<u2", kUint32 = "<u4";

/// Null if token numbers cannot be stored as this type of NumPy.
const TokenNumber* find_number(std::string_view name) {
  const auto* const row = std::ranges::find(kNumbers, name, &TokenNumber::name);
  return row == kNumbers.end() ? nullptr : row;
}

bool is_text(std::span<const std::byte> bytes) {
  constexpr std::size_t kFewest = 8;  // so many printable bytes are no chance
  const auto is_printable = [](std::byte byte) {
    const auto c = std::to_integer<unsigned char>(byte);
    return (c >= ' ' && c != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  };
  return bytes.size() >= kFewest && std::all_of(bytes.begin(), bytes.end(), is_printable) &&
         std::count_if(bytes.begin(), bytes.end(), [](std::byte byte) { return byte < std::byte{0x80}; }) * 2 >
             static_cast<std::ptrdiff_t>(bytes.size());
}

/// Whether these look like uint32 of a vocabulary below 65536: every second uint16 is 0.
bool looks_like_uint32(std::span<const std::byte> bytes) {
  constexpr std::size_t kFewest = 8;
  const std::size_t count = bytes.size() / sizeof(std::uint32_t);
  bool has_low = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = number_at<std::uint32_t>(bytes, i * sizeof(std::uint32_t));
    if (number > 0xffff) return false;
    has_low = has_low || number > 0;
  }
  return count >= kFewest && has_low;
}
}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, TokenType type) : file_(path) {
  if (!read_llm_c() && !read_npy()) take_raw(type);
}

/// So that so many bytes are ahead, or all that are left; their number.
std::size_t TokenFile::fetch(std::size_t bytes) {
  const std::size_t before = ahead_.size();
  if (before < bytes) {
    ahead_.resize(bytes);
    ahead_.resize(before + file_.read(std::span(ahead_).subspan(before)));
  }
  return ahead_.size();
}

bool TokenFile::read_llm_c() {
  constexpr std::size_t kHeader = 256 * sizeof(std::int32_t);
  struct Version {
    std::int32_t magic, version;
    std::string_view number;
  };
  constexpr std::array<Version, 2> kVersions{{{20240520, 1, kUint16}, {20240801, 7, kUint32}}};
  if (fetch(kHeader) < kHeader) return false;
  const auto magic = number_at<std::int32_t>(ahead_, 0), version = number_at<std::int32_t>(ahead_, sizeof magic);
  const auto* const known = std::ranges::find(kVersions, magic, &Version::magic);
  if (known == kVersions.end()) return false;
  require(version == known->version,
          "\"{}\" is a file of llm.c of version {}, but version {} is expected for its tokens", file_.path().string(),
          version, known->version);
  number_ = find_number(known->number);
  announced_ = number_at<std::int32_t>(ahead_, 2 * sizeof magic);
  ahead_.erase(ahead_.begin(), ahead_.begin() + kHeader);
  return true;
}

bool TokenFile::read_npy() {
  const auto header = read_npy_header(fmt::format("\"{}\"", file_.path().string()), [this](std::size_t bytes) {
    fetch(bytes);
    return std::span<const std::byte>(ahead_);
  });
  if (!header) return false;
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(header->bytes));
  number_ = find_number(header->type);
  require(number_ != nullptr && header->shape.size() == 1,
          "\"{}\" is an array of NumPy that does not hold tokens: whole numbers, little-endian, of one dimension are "
          "expected, as from tokens.astype(\"<u2\").ravel(); its header says {}",
          file_.path().string(), header->text);
  announced_ = header->shape[0];
  return true;
}

void TokenFile::take_raw(TokenType type) {
  fetch(kTokenBytes);
  const auto name = file_.path().string();
  if (type == TokenType::automatic) {
    const auto format = known_format(ahead_);
    require(format.empty(), "\"{}\" does not hold tokens: it is {}", name, format);
    require(
        !is_text(ahead_),
        "\"{}\" does not hold tokens: it is text; import it with \"distdl data import text\", or say --type uint16 if "
        "its numbers only look so",
        name);
    require(!looks_like_uint32(ahead_),
            "\"{}\" looks like tokens of 4 bytes each, because every second uint16 is 0; say --type uint32, or --type "
            "uint16 if it is right",
            name);
  }
  number_ = find_number(type == TokenType::uint32 ? kUint32 : kUint16);
}

std::span<const std::int64_t> TokenFile::next() {
  const std::size_t size = number_->size;
  const std::size_t count = fetch(kTokenBytes) / size;
  require(count > 0 || ahead_.empty(), "\"{}\" ends within a token: numbers of {} bytes each are expected",
          file_.path().string(), size);
  piece_.resize(count);
  number_->widen(ahead_, piece_);
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(count * size));
  return piece_;
}

}  // namespace distdl::data
