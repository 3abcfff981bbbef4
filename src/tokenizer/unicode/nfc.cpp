// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include <distdl/tokenizer/unicode/characters.hpp>
#include <distdl/tokenizer/unicode/nfc.hpp>
#include <distdl/tokenizer/unicode/unicode_tables.hpp>

namespace distdl::tokenizer {
namespace {
// Hangul's syllables, section 3.12 of the standard.
constexpr std::uint32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kFinal = 0x11a7;
constexpr std::uint32_t kLeads = 19, kVowels = 21, kFinals = 28, kSyllables = kLeads * kVowels * kFinals;

bool is_in(std::uint32_t code, std::uint32_t begin, std::uint32_t count) {
  return code - begin < count;
}

/// A character with its combining class.
struct Mark {
  std::uint32_t code, combining;
};

std::uint32_t combining_class(std::uint32_t code) {
  const auto ranges = combining_classes();
  const auto after = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
  return after != ranges.begin() && code <= std::prev(after)->last ? std::prev(after)->value : 0;
}

void decompose(std::uint32_t code, std::vector<Mark>& out) {
  if (is_in(code, kSyllable, kSyllables)) {
    const std::uint32_t index = code - kSyllable;
    out.push_back({kLead + index / (kVowels * kFinals), 0});
    out.push_back({kVowel + index / kFinals % kVowels, 0});
    if (index % kFinals > 0) out.push_back({kFinal + index % kFinals, 0});
    return;
  }
  const auto all = decompositions();
  const auto found = std::ranges::lower_bound(all, code, {}, &Decomposition::character);
  if (found == all.end() || found->character != code) {
    out.push_back({code, combining_class(code)});
    return;
  }
  decompose(found->first, out);  // the tables of Unicode are not deep
  if (found->second != 0) decompose(found->second, out);
}

/// Zero: the two are not one character.
std::uint32_t composed(std::uint32_t first, std::uint32_t second) {
  if (is_in(first, kLead, kLeads) && is_in(second, kVowel, kVowels))
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kFinals;
  if (is_in(first, kSyllable, kSyllables) && (first - kSyllable) % kFinals == 0 &&
      is_in(second, kFinal + 1, kFinals - 1))
    return first + (second - kFinal);
  static const auto pairs = [] {
    std::unordered_map<std::uint64_t, std::uint32_t> all;
    for (const auto& [character, one, other, composes] : decompositions())
      if (composes) all.emplace(std::uint64_t{one} << 32 | other, character);
    return all;
  }();
  const auto found = pairs.find(std::uint64_t{first} << 32 | second);
  return found == pairs.end() ? 0 : found->second;
}

/// Sorts marks that follow each other by class, and joins what has a joint character.
void compose(std::vector<Mark>& text) {
  for (auto at = text.begin(); at != text.end();) {
    const auto end = std::find_if(at, text.end(), [](const Mark& mark) { return mark.combining == 0; });
    std::stable_sort(at, end, [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
    at = end == text.end() ? end : std::next(end);
  }
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t kept = 0, starter = kNone;
  std::uint32_t last = 0;  // the class of what was kept last after the starter
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Mark mark = text[i];
    const bool is_adjacent = starter != kNone && kept == starter + 1;
    if (starter != kNone && (is_adjacent || last < mark.combining)) {
      if (const std::uint32_t both = composed(text[starter].code, mark.code)) {
        text[starter].code = both;
        continue;
      }
    }
    if (mark.combining == 0) starter = kept;
    last = mark.combining;
    text[kept++] = mark;
  }
  text.resize(kept);
}
}  // namespace

std::string_view to_nfc(std::string_view text, std::string& changed) {
  const std::uint8_t* const properties = character_properties();
  const auto is_unstable = [&](std::uint32_t code) { return (properties[code] & kUnstable) != 0; };
  std::size_t at = 0, copied = 0;
  Character before;  // what precedes `at`, which marks may join
  std::vector<Mark> marks;
  changed.clear();
  while (at < text.size()) {
    Character here = character_at(text, at);
    if (!is_unstable(here.code)) {
      before = here;
      at += here.bytes;
      continue;
    }
    std::size_t begin = at;
    marks.clear();
    if (before.code != kInvalid) {
      begin -= before.bytes;
      decompose(before.code, marks);
    }
    for (; at < text.size() && is_unstable((here = character_at(text, at)).code); at += here.bytes)
      decompose(here.code, marks);
    compose(marks);
    changed.append(text, copied, begin - copied);
    for (const Mark& mark : marks) append_utf8(mark.code, changed);
    copied = at;
    before = {};
  }
  if (copied == 0) return text;
  changed.append(text, copied);
  return changed;
}

}  // namespace distdl::tokenizer
