// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <sys/stat.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/document_import.hpp>
#include <distdl/data/format/token_file.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {
namespace {
/// The file is read twice, because the length of what is in it is known only at its end.
void require_twice_readable(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return;  // reading it reports why
  require(S_ISREG(status.st_mode),
          "\"{}\" is {}, but an import reads its file twice; write it to a file first, plain or gzip, and import that",
          file.string(), kind_of(status.st_mode));
}

}  // namespace

std::int64_t count_tokens(const TokenImport& import) {
  std::int64_t count = 0;
  TokenFile file(import.tokens, import.type);
  for (auto piece = file.next(); !piece.empty(); piece = file.next()) {
    const auto wrong =
        std::find_if(piece.begin(), piece.end(), [&](auto token) { return token < 0 || token >= import.vocabulary; });
    require(wrong == piece.end(),
            "token {} of \"{}\" is {}, but --vocabulary {} allows 0 to {}; is it a file of such numbers?",
            count + (wrong - piece.begin()), import.tokens.string(), wrong == piece.end() ? 0 : *wrong,
            import.vocabulary, import.vocabulary - 1);
    count += static_cast<std::int64_t>(piece.size());
  }
  require(count > 0, "\"{}\" contains no tokens", import.tokens.string());
  require(file.announced().value_or(count) == count, "\"{}\" contains {} tokens, but its header says {}",
          import.tokens.string(), count, file.announced().value_or(count));
  return count;
}

Description import_tokens(const TokenImport& import, const std::filesystem::path& output, Overwrite overwrite) {
  require_twice_readable(import.tokens);
  const std::int64_t count = count_tokens(import);
  SetWriter writer(output,
                   {.kind = kTokens,
                    .origin = fmt::format("tokens {}", import.tokens.filename().string()),
                    .samples = count,
                    .shape = {},
                    .classes = import.vocabulary},
                   overwrite);
  TokenFile file(import.tokens, import.type);
  for (auto piece = file.next(); !piece.empty(); piece = file.next()) writer.append_tokens(piece);
  return writer.commit();
}

Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite) {
  return import_text({.inputs = {text}, .format = TextFormat::text}, output, overwrite);
}

}  // namespace distdl::data
