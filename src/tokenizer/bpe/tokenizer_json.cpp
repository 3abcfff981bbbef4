// SPDX-License-Identifier: Apache-2.0
// Format: the library's own source, github.com/huggingface/tokenizers, since it is not specified elsewhere.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/known_formats.hpp>
#include <distdl/tokenizer/bpe/tokenizer_json.hpp>
#include <distdl/tokenizer/unicode/characters.hpp>

namespace distdl::tokenizer {
namespace {
using nlohmann::json;

/// GPT-2 writes each byte as a character: printable ones of Latin-1 as themselves, the others from U+0100 on.
std::array<std::uint32_t, 256> byte_alphabet() {
  std::array<std::uint32_t, 256> letters{};
  std::uint32_t next = 0x100;
  for (std::uint32_t byte = 0; byte < letters.size(); ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    letters[byte] = prints ? byte : next++;
  }
  return letters;
}

/// The bytes that a token of this alphabet stands for; nothing if it has other characters.
std::optional<std::string> bytes_of(std::string_view token) {
  static const auto bytes = [] {
    std::unordered_map<std::uint32_t, char> all;
    const auto letters = byte_alphabet();
    for (std::size_t byte = 0; byte < letters.size(); ++byte) all.emplace(letters[byte], static_cast<char>(byte));
    return all;
  }();
  std::string result;
  for (std::size_t at = 0; at < token.size();) {
    const Character letter = character_at(token, at);
    const auto found = bytes.find(letter.code);
    if (found == bytes.end()) return std::nullopt;
    result += found->second;
    at += letter.bytes;
  }
  return result;
}

class Reader {
 public:
  Reader(const json& document, const std::string& name) : document_(document), name_(name) {}

  TokenizerParts read() {
    const json& model = object_in(document_, "model");
    read_model_kind(model);
    read_vocabulary(model);
    read_merges(model);
    read_added_tokens();
    read_normalizer(member(document_, "normalizer"));
    read_pre_tokenizer(member(document_, "pre_tokenizer"));
    read_decoder(member(document_, "decoder"));
    return std::move(parts_);
  }

 private:
  template <class... Args>
  void demand(bool holds, fmt::format_string<Args...> why, Args&&... args) const {
    if (!holds) throw ConfigError(fmt::format("\"{}\": {}", name_, fmt::format(why, std::forward<Args>(args)...)));
  }
  static const json& member(const json& object, const char* key) {
    static const json none;
    const auto found = object.find(key);
    return found == object.end() ? none : *found;
  }
  const json& object_in(const json& object, const char* key) const {
    const json& found = member(object, key);
    demand(found.is_object(), "\"{}\" is missing; a tokenizer.json of Hugging Face is expected", key);
    return found;
  }
  static bool flag(const json& object, const char* key, bool otherwise = false) {
    const json& found = member(object, key);
    return found.is_boolean() ? found.get<bool>() : otherwise;
  }
  /// For messages and comparison; empty: it has none.
  static std::string text(const json& object, const char* key) {
    const json& found = member(object, key);
    return found.is_string() ? found.get<std::string>() : std::string();
  }
  static std::string kind_of_part(const json& part) {
    return part.is_object() ? text(part, "type") : part.is_null() ? "none" : part.type_name();
  }

  void read_model_kind(const json& model) {
    const bool is_old = member(model, "type").is_null() && member(model, "merges").is_array();  // before 0.9
    const std::string kind = is_old ? "BPE" : text(model, "type");
    demand(kind == "BPE", "the model \"{}\" is not supported; byte-level BPE is, as of GPT-2, Llama 3 and Qwen", kind);
    demand(!flag(model, "byte_fallback"), "BPE with \"byte_fallback\" is not supported; byte-level BPE is");
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const json& value = member(model, key);
      const bool is_off =
          value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) || value == 0.0;
      demand(is_off, "\"{}\" of the model is not supported; expected null", key);
    }
    parts_.takes_whole_words = flag(model, "ignore_merges");
  }

  void take(Token id, std::string bytes) {
    if (parts_.bytes.size() <= id) parts_.bytes.resize(std::size_t{id} + 1);
    demand(parts_.bytes[id].empty(), "two tokens have the number {}", id);
    parts_.bytes[id] = std::move(bytes);
  }
  Token number(const json& value, std::string_view token) const {
    const auto id = value.is_number_unsigned() ? value.get<std::uint64_t>() : kLargestToken + 1;
    demand(id <= kLargestToken, "the token {} has the number {}, but 0 to {} are expected", json(token).dump(),
           value.dump(), kLargestToken);
    return static_cast<Token>(id);
  }

  void read_vocabulary(const json& model) {
    for (const auto& [token, value] : object_in(model, "vocab").items()) {
      const Token id = number(value, token);
      demand(!token.empty(), "the token of number {} is empty", id);
      auto bytes = bytes_of(token);
      if (bytes && bytes->size() == 1) known_bytes_[static_cast<std::uint8_t>((*bytes)[0])] = id;
      if (bytes) parts_.words.push_back(id);
      take(id, bytes ? *bytes : token);
      ids_.emplace(token, id);
    }
    for (std::size_t byte = 0; byte < known_bytes_.size(); ++byte) {
      demand(known_bytes_[byte].has_value(),
             "no token stands for the byte 0x{:02x}: the vocabulary is not one of byte-level BPE", byte);
      parts_.of_byte[byte] = *known_bytes_[byte];
    }
  }

  /// ["a", "b"] or "a b"
  std::pair<std::string, std::string> merged(const json& merge) const {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    const std::string both = merge.is_string() ? merge.get<std::string>() : "";
    const auto space = both.find(' ');
    demand(space != std::string::npos && both.find(' ', space + 1) == std::string::npos,
           "{} is not a merge of two tokens", merge.dump());
    return {both.substr(0, space), both.substr(space + 1)};
  }

  Token known(const std::string& token, const json& merge) const {
    const auto found = ids_.find(token);
    demand(found != ids_.end(), "the merge {} needs the token {}, which the vocabulary does not have", merge.dump(),
           json(token).dump());
    return found->second;
  }

  void read_merges(const json& model) {
    const json& list = member(model, "merges");
    demand(list.is_array(), "the model has no list \"merges\"");
    parts_.merge_table = MergeTable(list.size());
    std::uint32_t rank = 0;
    for (const json& merge : list) {
      const auto [left, right] = merged(merge);
      const Token one = known(left, merge), other = known(right, merge);
      parts_.merge_table.put(one, other, {rank++, known(left + right, merge)});
    }
  }

  void read_added_tokens() {
    const json& added = member(document_, "added_tokens");
    demand(added.is_null() || added.is_array(), "\"added_tokens\" is no list");
    for (const json& each : added) {
      AddedToken token{.content = text(each, "content"),
                       .id = number(member(each, "id"), text(each, "content")),
                       .takes_space_before = flag(each, "lstrip"),
                       .takes_space_after = flag(each, "rstrip"),
                       .is_normalized = flag(each, "normalized")};
      demand(!token.content.empty(), "the added token of number {} is empty", token.id);
      demand(!flag(each, "single_word"), "\"single_word\" of the added token {} is not supported",
             json(token.content).dump());
      const auto known = ids_.find(token.content);
      demand(known == ids_.end() || known->second == token.id,
             "the added token {} has the number {}, but the vocabulary has it with {}", json(token.content).dump(),
             token.id, known == ids_.end() ? 0 : known->second);
      if (known == ids_.end()) {
        take(token.id, token.content);
        ids_.emplace(token.content, token.id);
      } else {
        parts_.bytes[token.id] = token.content;  // a byte of itself, as it is written
      }
      parts_.added.push_back(std::move(token));
    }
    std::ranges::sort(parts_.added, {}, &AddedToken::id);
    const auto twice = std::ranges::adjacent_find(parts_.added, {}, &AddedToken::id);
    demand(twice == parts_.added.end(), "the number {} is added twice", twice == parts_.added.end() ? 0 : twice->id);
  }

  /// The parts of a sequence, or the part itself.
  std::vector<json> listed(const json& part, const char* key) const {
    if (part.is_null()) return {};
    if (kind_of_part(part) != "Sequence") return {part};
    const json& list = member(part, key);
    demand(list.is_array(), "a sequence has no list \"{}\"", key);
    return list;
  }

  void read_normalizer(const json& normalizer) {
    for (const json& part : listed(normalizer, "normalizers")) {
      demand(kind_of_part(part) == "NFC", "the normalizer \"{}\" is not supported; NFC and none are",
             kind_of_part(part));
      parts_.is_normalized = true;
    }
  }

  void read_split(const json& part) {
    const std::string expression = text(member(part, "pattern"), "Regex");
    const auto known = known_splits();
    const auto found = std::ranges::find(known, expression, &KnownSplit::expression);
    std::vector<std::string_view> names;
    for (const KnownSplit& each : known) names.push_back(each.name);
    demand(found != known.end(), "its pre-tokenizer splits by {}, which is not supported; the expressions of {} are",
           member(part, "pattern").dump(), fmt::join(names, ", "));
    demand(text(part, "behavior") == "Isolated" && !flag(part, "invert"),
           "a split with the behavior \"{}\"{} is not supported; \"Isolated\" is", text(part, "behavior"),
           flag(part, "invert") ? ", inverted," : "");
    parts_.split = found->split;
  }

  void read_pre_tokenizer(const json& pre_tokenizer) {
    bool is_byte_level = false;
    for (const json& part : listed(pre_tokenizer, "pretokenizers")) {
      const std::string kind = kind_of_part(part);
      demand(kind == "Split" || kind == "ByteLevel",
             "the pre-tokenizer \"{}\" is not supported; ByteLevel is, and Split before it", kind);
      demand(!is_byte_level, "the pre-tokenizer \"{}\" after ByteLevel is not supported", kind);
      if (kind == "ByteLevel") {
        is_byte_level = true;
        const bool splits = flag(part, "use_regex", true);
        parts_.begins_with_space = flag(part, "add_prefix_space", true);
        demand(splits == (parts_.split == nullptr), "its pre-tokenizer ByteLevel {} is not supported",
               splits ? "with use_regex after a split" : "without use_regex and without a split before");
        demand(splits || !parts_.begins_with_space, "\"add_prefix_space\" after a split is not supported");
        if (splits) parts_.split = known_splits()[0].split;
      } else {
        demand(parts_.split == nullptr, "a second pre-tokenizer \"Split\" is not supported");
        read_split(part);
      }
    }
    demand(is_byte_level, "the pre-tokenizer \"{}\" is not supported; ByteLevel is, and Split before it",
           kind_of_part(pre_tokenizer));
  }

  void read_decoder(const json& decoder) {
    for (const json& part : listed(decoder, "decoders"))
      demand(kind_of_part(part) == "ByteLevel", "the decoder \"{}\" is not supported; ByteLevel is",
             kind_of_part(part));
  }

  const json& document_;
  const std::string& name_;
  TokenizerParts parts_;
  std::unordered_map<std::string, Token> ids_;
  std::array<std::optional<Token>, 256> known_bytes_{};
};

json parsed(std::string_view text, const std::string& name) {
  const auto format = known_format(std::as_bytes(std::span(text.substr(0, kFormatHead))));
  require(format.empty(), "\"{}\" is no tokenizer.json: it is {}", name, format);
  require(text.size() <= kLargestTokenizer, "\"{}\" has {} bytes, but a tokenizer.json has at most {}", name,
          text.size(), kLargestTokenizer);
  json document = json::parse(text, nullptr, false);
  require(document.is_object(), "\"{}\" is no tokenizer.json: it is not an object of JSON", name);
  return document;
}
}  // namespace

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name) {
  const json document = parsed(text, name);
  return Reader(document, name).read();
}

std::string json_of_gpt2(std::string_view vocabulary, std::string_view merge_lines, const std::string& name) {
  json list = json::array();
  for (std::size_t at = 0; at < merge_lines.size();) {
    const std::size_t end = std::min(merge_lines.find('\n', at), merge_lines.size());
    std::string_view line = merge_lines.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) list.push_back(line);
    at = end + 1;
  }
  json document{{"version", "1.0"},
                {"added_tokens", json::array()},
                {"normalizer", nullptr},
                {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                {"decoder", {{"type", "ByteLevel"}}},
                {"model", {{"type", "BPE"}, {"vocab", parsed(vocabulary, name)}, {"merges", std::move(list)}}}};
  constexpr const char* kEnd = "<|endoftext|>";
  const json& vocab = document["model"]["vocab"];
  if (const auto end = vocab.find(kEnd); end != vocab.end())
    document["added_tokens"].push_back({{"id", *end}, {"content", kEnd}, {"special", true}, {"normalized", false}});
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace distdl::tokenizer
