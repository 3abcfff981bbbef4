// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <sys/stat.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/gzip_handles.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kPiece = 64 << 10;  // bytes read at once

/// The file is read twice, because the length of what is in it is known only at its end.
void require_twice_readable(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return;  // reading it reports why
  require(S_ISREG(status.st_mode),
          "\"{}\" is {}, but an import reads its file twice; write it to a file first, plain or gzip, and import that",
          file.string(), kind_of(status.st_mode));
}

/// Hands the content to `take` piece by piece; returns its length.
template <class Take>
std::int64_t for_each_piece(const std::filesystem::path& text, Take&& take) {
  GzipReader reader(text);
  std::vector<std::uint8_t> buffer(kPiece);
  std::int64_t total = 0;
  while (std::size_t got = reader.read(std::as_writable_bytes(std::span(buffer)))) {
    take(std::span<const std::uint8_t>(buffer).first(got));
    total += static_cast<std::int64_t>(got);
  }
  return total;
}

/// A file of uint16 numbers: first the header, if there is one.
class TokenReader {
 public:
  explicit TokenReader(const std::filesystem::path& path) : file_(path) {
    std::array<std::int32_t, 256> header{};
    const std::size_t got = file_.read(std::as_writable_bytes(std::span(header)));
    if (got == sizeof header && header[0] == 20240520 && header[1] == 1) {
      announced_ = header[2];
      return;
    }
    const auto bytes = std::as_bytes(std::span(header)).first(got);
    rest_.assign(bytes.begin(), bytes.end());
  }
  std::optional<std::int64_t> announced() const { return announced_; }

  /// Nothing at the end.
  std::span<const std::uint16_t> next() {
    const std::size_t before = rest_.size();
    rest_.resize(before + kPiece);
    rest_.resize(before + file_.read(std::span(rest_).subspan(before)));
    const std::size_t whole = rest_.size() / sizeof(std::uint16_t);
    if (whole == 0)
      require(rest_.empty(), "\"{}\" ends within a token: numbers of 2 bytes each are expected", file_.path().string());
    piece_.resize(whole);
    std::copy_n(rest_.begin(), whole * sizeof(std::uint16_t), std::as_writable_bytes(std::span(piece_)).begin());
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(whole * sizeof(std::uint16_t)));
    return piece_;
  }

 private:
  GzipReader file_;
  std::optional<std::int64_t> announced_;
  std::vector<std::byte> rest_;
  std::vector<std::uint16_t> piece_;
};

}  // namespace

std::int64_t count_tokens(const std::filesystem::path& tokens, std::int64_t vocabulary) {
  std::int64_t count = 0;
  TokenReader counted(tokens);
  for (auto piece = counted.next(); !piece.empty(); piece = counted.next()) {
    const auto wrong = std::find_if(piece.begin(), piece.end(), [&](auto token) { return token >= vocabulary; });
    require(wrong == piece.end(),
            "token {} of \"{}\" is {}, but --vocabulary {} allows 0 to {}; is it a file of little-endian uint16?",
            count + (wrong - piece.begin()), tokens.string(), wrong == piece.end() ? 0 : *wrong, vocabulary,
            vocabulary - 1);
    count += static_cast<std::int64_t>(piece.size());
  }
  require(count > 0, "\"{}\" contains no tokens", tokens.string());
  require(counted.announced().value_or(count) == count, "\"{}\" contains {} tokens, but its header says {}",
          tokens.string(), count, counted.announced().value_or(count));
  return count;
}

std::int64_t count_bytes(const std::filesystem::path& text) {
  const std::int64_t length = for_each_piece(text, [](auto) {});
  require(length > 0, "\"{}\" is empty, but a text of at least one byte is expected", text.string());
  return length;
}

Description import_tokens(const std::filesystem::path& tokens, std::int64_t vocabulary,
                          const std::filesystem::path& output, Overwrite overwrite) {
  require_twice_readable(tokens);
  const std::int64_t count = count_tokens(tokens, vocabulary);
  SetWriter writer(output,
                   {.kind = kTokens,
                    .origin = fmt::format("tokens {}", tokens.filename().string()),
                    .samples = count,
                    .shape = {},
                    .classes = vocabulary},
                   overwrite);
  TokenReader reader(tokens);
  std::vector<std::uint8_t> narrow;
  for (auto piece = reader.next(); !piece.empty(); piece = reader.next()) {
    if (vocabulary > 1 << 8) {
      writer.append(piece);
      continue;
    }
    narrow.assign(piece.begin(), piece.end());
    writer.append(narrow);
  }
  return writer.commit();
}

Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite) {
  require_twice_readable(text);
  const std::int64_t length = count_bytes(text);
  SetWriter writer(output,
                   {.kind = kTokens,
                    .origin = fmt::format("text {}", text.filename().string()),
                    .samples = length,
                    .shape = {},
                    .classes = 256},
                   overwrite);
  for_each_piece(text, [&](auto piece) { writer.append(piece); });
  return writer.commit();
}

}  // namespace distdl::data
