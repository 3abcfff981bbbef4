// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/data/gzip_handles.hpp>
#include <distdl/data/set_format.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/text_import.hpp>

namespace distdl::data {
namespace {

/// Hands the content to `take` piece by piece; returns its length.
template <class Take>
std::int64_t for_each_piece(const std::filesystem::path& text, Take&& take) {
  GzipReader reader(text);
  std::vector<std::uint8_t> buffer(1 << 20);
  std::int64_t total = 0;
  while (std::size_t got = reader.read(std::as_writable_bytes(std::span(buffer)))) {
    take(std::span<const std::uint8_t>(buffer).first(got));
    total += static_cast<std::int64_t>(got);
  }
  return total;
}

}  // namespace

Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite) {
  // Twice through the file, because only its end tells how long a gzip file is.
  std::int64_t length = for_each_piece(text, [](auto) {});
  require(length > 0, "\"{}\" is empty; a text of at least one byte is expected", text.string());
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
