// SPDX-License-Identifier: Apache-2.0
// Keys and names: gguf-py/gguf/constants.py and conversion/*.py of https://github.com/ggml-org/llama.cpp
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <distdl/app/model/gguf_tokenizer.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/sentence_pieces.hpp>

namespace distdl::app {
namespace {
using checkpoint::GgufMetadata;
using GgufJson = nlohmann::json;

// Kinds of tokens: those of SentencePiece.
constexpr std::int32_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;

/// The names that llama.cpp has for the expressions by which texts are split.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSplits{
    {{"GPT-2", "gpt-2"}, {"Llama 3", "llama-bpe"}, {"Qwen", "qwen2"}}};

std::string merge_text(const GgufJson& merge) {
  return merge.is_string() ? merge.get<std::string>()
                           : merge.at(0).get<std::string>() + ' ' + merge.at(1).get<std::string>();
}

/// The row that pads a table of tokens.
std::string padding_token(std::size_t row) {
  return fmt::format("[PAD{}]", row);
}

/// Tokens in the letters of byte-level BPE, as the tokenizer.json has them. Rows of the table beyond are unused.
void add_byte_level(const tokenizer::Tokenizer& tokenizer, std::int64_t vocabulary, GgufMetadata& all) {
  const GgufJson document = GgufJson::parse(tokenizer.content());
  const auto count = static_cast<std::size_t>(std::max(vocabulary, tokenizer.vocabulary()));
  std::vector<std::string> tokens(count), pairs;
  std::vector<std::int32_t> kinds(count, kUnused);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = padding_token(i);
  const auto take = [&](std::size_t id, const std::string& token, std::int32_t kind) {
    tokens[id] = token;
    kinds[id] = kind;
  };
  for (const auto& [token, id] : document.at("model").at("vocab").items()) take(id.get<std::size_t>(), token, kNormal);
  for (const auto& added : document.value("added_tokens", GgufJson::array()))
    take(added.at("id").get<std::size_t>(), added.at("content").get<std::string>(),
         added.value("special", false) ? kControl : kUserDefined);
  for (const auto& merge : document.at("model").at("merges")) pairs.push_back(merge_text(merge));
  const auto* const split = std::ranges::find(kSplits, tokenizer.split(), [](const auto& each) { return each.first; });
  require<InternalError>(split != kSplits.end(), "llama.cpp's name of the split of {} is unknown", tokenizer.split());
  all.insert(all.end(), {{"tokenizer.ggml.model", std::string("gpt2")},
                         {"tokenizer.ggml.pre", std::string(split->second)},
                         {"tokenizer.ggml.tokens", std::move(tokens)},
                         {"tokenizer.ggml.token_type", std::move(kinds)},
                         {"tokenizer.ggml.merges", std::move(pairs)},
                         {"tokenizer.ggml.add_bos_token", false}});
  if (const auto end = tokenizer.end_of_text())
    for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) all.emplace_back(key, *end);
}

/// Pieces, with their scores, as a tokenizer.model has them.
void add_sentence_pieces(const tokenizer::SentencePieceModel& model, std::int64_t vocabulary, GgufMetadata& all) {
  constexpr float kUnusedScore = -1000;
  const std::size_t count = std::max(model.pieces.size(), static_cast<std::size_t>(vocabulary));
  std::vector<std::string> tokens(count);
  std::vector<float> scores(count, kUnusedScore);
  std::vector<std::int32_t> kinds(count, kUnused);
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= model.pieces.size()) {
      tokens[i] = padding_token(i);
      continue;
    }
    const auto& piece = model.pieces[i];
    tokens[i] = piece.text;
    scores[i] = piece.score;
    kinds[i] = static_cast<std::int32_t>(piece.kind);
    if (piece.kind == tokenizer::PieceKind::unknown)
      all.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(i));
  }
  all.insert(all.end(), {{"tokenizer.ggml.model", std::string("llama")},
                         {"tokenizer.ggml.pre", std::string("default")},
                         {"tokenizer.ggml.tokens", std::move(tokens)},
                         {"tokenizer.ggml.scores", std::move(scores)},
                         {"tokenizer.ggml.token_type", std::move(kinds)},
                         {"tokenizer.ggml.add_space_prefix", model.adds_space},
                         {"tokenizer.ggml.add_bos_token", false}});
  if (model.beginning) all.emplace_back("tokenizer.ggml.bos_token_id", *model.beginning);
  if (model.end) all.emplace_back("tokenizer.ggml.eos_token_id", *model.end);
}
}  // namespace

std::string add_gguf_tokenizer(const std::optional<tokenizer::Tokenizer>& tokenizer, std::int64_t vocabulary,
                               GgufMetadata& all) {
  std::string note;
  if (tokenizer && tokenizer->file_name() == "tokenizer.json") {
    add_byte_level(*tokenizer, vocabulary, all);
    return note;
  }
  if (tokenizer) {
    const auto model = tokenizer::read_sentence_pieces(tokenizer->content(), "the tokenizer of the checkpoint");
    if (model.is_like_llama()) {
      add_sentence_pieces(model, vocabulary, all);
      return note;
    }
    note =
        "the tokenizer is left out: llama.cpp would make other tokens with it; it knows BPE with bytes for unknown "
        "characters, without rules of normalization";
  }
  all.emplace_back("tokenizer.ggml.model", std::string("none"));
  return note;
}

}  // namespace distdl::app
