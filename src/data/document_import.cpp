// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <deque>
#include <future>
#include <mutex>
#include <span>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/processors.hpp>
#include <distdl/data/document_import.hpp>
#include <distdl/data/format/text_records.hpp>
#include <distdl/data/format/token_spool.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/tokens.hpp>
#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;
using tokenizer::Encoder;
using tokenizer::TextPart;
using tokenizer::Token;
using tokenizer::Tokenizer;

constexpr std::int64_t kBytes = 256;  ///< vocabulary without a tokenizer
constexpr std::int64_t kMostThreads = 256;

/// Texts as tokens, in several threads. Each thread takes an encoder, with the words that it has learnt, and gives it
/// back.
class Encoding {
 public:
  explicit Encoding(const TextImport& import) : field_(import.field) {
    if (import.tokenizer != "bytes") tokenizer_ = Tokenizer::read(import.tokenizer);
    find_separator(import);
  }
  std::int64_t vocabulary() const { return tokenizer_ ? tokenizer_->vocabulary() : kBytes; }
  const std::string& content() const {
    static const std::string none;
    return tokenizer_ ? tokenizer_->content() : none;
  }

  /// The last place for a cut in the last mebibyte of a text; 0: there is none.
  std::size_t find_cut(std::string_view text) const {
    constexpr std::size_t kSearched = 1 << 20;
    const std::size_t first = text.size() - std::min(kSearched, text.size());
    for (std::size_t at = text.size() - 1; at > first; --at)
      if (!tokenizer_ || tokenizer_->may_cut(text, at)) return at;
    return 0;
  }

  std::vector<Token> tokens_of(const TextRecords& records) {
    std::vector<Token> tokens;
    auto encoder = taken_encoder();
    for (std::size_t i = 0; i < records.ends.size(); ++i) {
      const auto text = text_of_record(records, i, field_);
      if (!text || (text->empty() && records.format != TextFormat::text)) continue;
      encode(encoder.get(), *text, records.begins_document ? TextPart::whole : TextPart::continued, tokens);
      if (records.ends_document) tokens.insert(tokens.end(), separator_.begin(), separator_.end());
    }
    const std::lock_guard lock(mutex_);
    if (encoder) free_.push_back(std::move(encoder));
    return tokens;
  }

 private:
  static void encode(Encoder* encoder, std::string_view text, TextPart part, std::vector<Token>& tokens) {
    if (encoder) return encoder->encode(text, tokens, part);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
    tokens.insert(tokens.end(), bytes, bytes + text.size());
  }

  std::unique_ptr<Encoder> taken_encoder() {
    if (!tokenizer_) return nullptr;
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Encoder>(*tokenizer_);
    auto taken = std::move(free_.back());
    free_.pop_back();
    return taken;
  }

  void find_separator(const TextImport& import) {
    if (const auto whole = import.separator && tokenizer_ ? tokenizer_->added_token(*import.separator) : std::nullopt) {
      separator_ = {*whole};  // no text contains a control symbol of SentencePiece
    } else if (import.separator) {
      encode(taken_encoder().get(), *import.separator, TextPart::whole, separator_);
      require(!tokenizer_ || separator_.size() <= 1, "the separator \"{}\" is {} tokens of \"{}\", but one is expected",
              *import.separator, separator_.size(), import.tokenizer);
    } else if (tokenizer_) {
      const auto end = tokenizer_->end_of_text();
      require(end.has_value(),
              "\"{}\" has no token of a known name that ends a text; name the one that separates documents by "
              "--separator, or say --separator \"\"",
              import.tokenizer);
      separator_ = {*end};
    }
  }

  std::string field_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<Token> separator_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Encoder>> free_;
};

TextFormat format_of(fs::path file) {
  const auto suffix = [&] {
    std::string text = file.extension().string();
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  if (suffix() == ".gz" || suffix() == ".zst") file = file.stem();
  const std::string end = suffix();
  if (end == ".jsonl" || end == ".ndjson" || end == ".json") return TextFormat::jsonl;
  return end == ".csv" ? TextFormat::csv : end == ".tsv" ? TextFormat::tsv : TextFormat::text;
}

/// Hands all records to threads, and their tokens to `take`, in order.
template <class Take>
void for_each_tokens(const TextImport& import, const std::vector<fs::path>& files, Encoding& encoding, Take&& take) {
  const auto processors = static_cast<std::int64_t>(usable_processors().size());
  const auto threads = static_cast<std::size_t>(
      std::clamp<std::int64_t>(import.threads > 0 ? import.threads : processors, 1, kMostThreads));
  std::deque<std::future<std::vector<Token>>> under_way;
  const auto take_first = [&] {
    const auto tokens = under_way.front().get();
    under_way.pop_front();
    take(std::span<const Token>(tokens));
  };
  for (const fs::path& file : files) {
    TextRecordReader reader(file, import.format == TextFormat::automatic ? format_of(file) : import.format,
                            import.field, [&](std::string_view text) { return encoding.find_cut(text); });
    while (auto records = reader.next()) {
      if (under_way.size() == threads) take_first();
      under_way.push_back(std::async(
          std::launch::async | std::launch::deferred,  // where there are no more threads, take_first() does it
          [&encoding, records = std::move(*records)] { return encoding.tokens_of(records); }));
    }
  }
  while (!under_way.empty()) take_first();
}

std::string origin_of(const TextImport& import) {
  const fs::path& first = import.inputs.front();
  std::string name = (first.has_filename() ? first : first.parent_path()).filename().string();
  if (import.inputs.size() > 1) name += fmt::format(" and {} more", import.inputs.size() - 1);
  if (import.tokenizer == "bytes") return "text " + name;
  return fmt::format("text {} tokenizer={}", name, fs::path(import.tokenizer).filename().string());
}
}  // namespace

std::vector<fs::path> text_files(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& input : inputs) {
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      files.push_back(input);
      continue;
    }
    const std::size_t before = files.size();
    for (auto entry = fs::recursive_directory_iterator(input, error); !error && entry != fs::end(entry);
         entry.increment(error)) {
      const bool is_hidden = entry->path().filename().string().starts_with('.');
      if (is_hidden && entry->is_directory()) entry.disable_recursion_pending();
      if (!is_hidden && entry->is_regular_file()) files.push_back(entry->path());
    }
    require<StorageError>(!error, "cannot read the folder \"{}\": {}", input.string(), error.message());
    require(files.size() > before, "the folder \"{}\" has no files", input.string());
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

Description import_text(const TextImport& import, const fs::path& output, Overwrite overwrite) {
  require(!import.inputs.empty(), "there are no files to import");
  { const StagedFile refuses_early(output, overwrite); }
  Encoding encoding(import);
  TokenSpool spool(output);
  for_each_tokens(import, text_files(import.inputs), encoding, [&](auto tokens) { spool.append(tokens); });
  require(spool.size() > 0, "\"{}\" is empty, but a text of at least one byte is expected", import.inputs[0].string());
  SetWriter writer(output,
                   {.kind = kTokens,
                    .origin = origin_of(import),
                    .samples = spool.size(),
                    .shape = {},
                    .classes = encoding.vocabulary(),
                    .tokenizer_bytes = static_cast<std::int64_t>(encoding.content().size())},
                   overwrite);
  spool.read([&](auto tokens) { writer.append_tokens(tokens); });
  writer.write_tokenizer(encoding.content());
  return writer.commit();
}

}  // namespace distdl::data
