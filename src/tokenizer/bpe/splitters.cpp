// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>

#include <distdl/tokenizer/bpe/splitters.hpp>
#include <distdl/tokenizer/unicode/characters.hpp>

namespace distdl::tokenizer {
namespace {
using enum CharacterClass;

/// The class of the character at `at`, which is moved behind it.
CharacterClass step(std::string_view text, std::size_t& at) {
  const Character found = character_at(text, at);
  at += found.bytes;
  return class_of(found.code);
}

/// Where characters of a class end that begin at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    std::size_t next = at;
    if (step(text, next) != kind) break;
    at = next;
  }
  return at;
}

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

/// Length of 's, 't, 're, 've, 'm, 'll or 'd behind an apostrophe; 0 if there is none.
std::size_t contraction(std::string_view rest) {
  if (rest.empty()) return 0;
  const char one = rest[0], two = rest.size() > 1 ? rest[1] : '\0';
  if (one == 's' || one == 't' || one == 'm' || one == 'd') return 1;
  return (one == 'r' && two == 'e') || (one == 'v' && two == 'e') || (one == 'l' && two == 'l') ? 2 : 0;
}

/// Likewise, in letters of either case; U+017F is an s, too.
std::size_t any_case_contraction(std::string_view rest) {
  if (rest.starts_with("\xc5\xbf")) return 2;
  std::array<char, 2> lower{};
  for (std::size_t i = 0; i < std::min(lower.size(), rest.size()); ++i)
    lower[i] = rest[i] >= 'A' && rest[i] <= 'Z' ? static_cast<char>(rest[i] - 'A' + 'a') : rest[i];
  return contraction({lower.data(), std::min(lower.size(), rest.size())});
}

/// \s+(?!\S)|\s+ : white space without the last character, which belongs to the word that follows, if there is one.
std::size_t end_of_space(std::string_view text, std::size_t at, std::size_t end) {
  if (end == text.size()) return end;
  const std::size_t last = end - character_before(text, end).bytes;
  return last > at ? last : end;
}

/// Lines of this form are quicker than the same by class.
std::size_t gpt2(std::string_view text, std::size_t at) {
  if (text[at] == '\'')
    if (const std::size_t length = contraction(text.substr(at + 1))) return at + 1 + length;
  std::size_t after = at;
  CharacterClass kind = step(text, after);
  if (text[at] == ' ' && after < text.size()) {
    std::size_t next = after;
    if (const CharacterClass following = step(text, next); following != space) {
      kind = following;
      after = next;
    }
  }
  const std::size_t end = end_of_run(text, after, kind);
  return kind == space ? end_of_space(text, at, end) : end;
}

/// `digits`: how many numbers are a word at most.
template <int digits>
std::size_t llama3(std::string_view text, std::size_t at) {
  if (text[at] == '\'')
    if (const std::size_t length = any_case_contraction(text.substr(at + 1))) return at + 1 + length;
  std::size_t after = at;
  const CharacterClass kind = step(text, after);
  if (kind == letter) return end_of_run(text, after, letter);
  if (kind == number) {
    for (int i = 1; i < digits && after < text.size(); ++i) {
      std::size_t next = after;
      if (step(text, next) != number) break;
      after = next;
    }
    return after;
  }
  std::size_t next = after;
  const CharacterClass following = after < text.size() ? step(text, next) : space;
  if (following == letter && !is_line_end(text[at])) return end_of_run(text, next, letter);
  if (kind == other || (text[at] == ' ' && following == other)) {
    std::size_t end = end_of_run(text, after, other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const std::size_t end = end_of_run(text, after, space);
  const auto line_end = text.substr(at, end - at).find_last_of("\r\n");
  return line_end != std::string_view::npos ? at + line_end + 1 : end_of_space(text, at, end);
}

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
constexpr std::array<KnownSplit, 3> kKnown{{
    {"GPT-2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", &gpt2},
    {"Llama 3", CONTRACTIONS "|" WORDS "|\\p{N}{1,3}|" SIGNS, &llama3<3>},
    {"Qwen", CONTRACTIONS "|" WORDS "|\\p{N}|" SIGNS, &llama3<1>},
}};
#undef CONTRACTIONS
#undef WORDS
#undef SIGNS
}  // namespace

std::span<const KnownSplit> known_splits() {
  return kKnown;
}

bool is_cut(std::string_view text, std::size_t at) {
  if (at == 0 || at >= text.size() || (text[at] != ' ' && text[at] != '\n')) return false;
  const CharacterClass before = class_of(character_before(text, at).code);
  return before == letter || before == number || (before == other && text[at] == ' ');
}

}  // namespace distdl::tokenizer
