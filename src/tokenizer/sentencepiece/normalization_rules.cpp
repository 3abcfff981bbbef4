// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/sentencepiece/normalization_rules.hpp>

namespace distdl::tokenizer {
namespace {
constexpr std::size_t kLargestRules = 16 << 20;  ///< bytes; those of NFKC are 240 KB
constexpr std::size_t kLongestResult = 256;      ///< bytes that a rule may put for a few; NFKC's longest are 33
constexpr int kLongestKey = 256;                 ///< bytes
constexpr int kMostNestedKeys = 32;              ///< the library has room for so many that begin at one place

/// A unit of a double-array trie, as darts.h of github.com/s-yata/darts-clone has it.
struct TrieUnit {
  std::uint32_t bits;
  bool has_result() const { return (bits >> 8 & 1) == 1; }
  std::uint32_t result() const { return bits & 0x7fffffff; }
  std::uint32_t label() const { return bits & 0x800000ff; }
  std::uint32_t offset() const { return (bits >> 10) << ((bits & 0x200) >> 6); }
};

/// Visits each place of the trie that the library can come to. Several ways may lead to one.
class TrieWalk {
 public:
  TrieWalk(std::string_view trie, std::string_view results, const std::string& name)
      : trie_(trie), results_(results), name_(name), nested_(trie.size() / 4, kUnknown) {}

  bool leaves_spaces_alone() {
    check(trie_.size() % 4 == 0 && !nested_.empty());
    visit(unit(0).offset(), 0);
    return leaves_spaces_alone_;
  }

 private:
  static constexpr std::uint8_t kUnknown = 255, kBeingVisited = 254;

  void check(bool is_sound) const {
    require(is_sound, "\"{}\" is damaged: its rules of normalization lead nowhere; get the file again", name_);
  }
  TrieUnit unit(std::size_t place) const {
    check(place < nested_.size());
    std::uint32_t bits = 0;
    for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<std::uint8_t>(trie_[4 * place + i]);
    return {bits};
  }

  /// The most keys that end on one way from here on. `depth`: bytes of the key so far.
  int visit(std::size_t place, int depth) {
    check(depth <= kLongestKey && (place | 0xff) < nested_.size());
    check(nested_[place] != kBeingVisited);
    if (nested_[place] != kUnknown) return nested_[place];
    nested_[place] = kBeingVisited;
    int most = 0;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const TrieUnit next = unit(place ^ byte);
      if (next.label() != byte) continue;
      if (byte == ' ') leaves_spaces_alone_ = false;
      const std::size_t there = (place ^ byte) ^ next.offset();
      if (next.has_result()) look_at_result(byte, unit(there).result());
      most = std::max(most, visit(there, depth + 1) + (next.has_result() ? 1 : 0));
    }
    check(most <= kMostNestedKeys);
    nested_[place] = static_cast<std::uint8_t>(most);
    return most;
  }

  /// `last`: byte of the key.
  void look_at_result(std::uint32_t last, std::size_t place) {
    check(place < results_.size());
    const std::string_view result = results_.substr(place, results_.find('\0', place) - place);
    const bool ends_as_before = !result.empty() && !result.ends_with(' ') && !result.ends_with("\xe2\x96\x81");
    if (last < 0x80 && std::isalnum(static_cast<int>(last)) != 0 && !ends_as_before) leaves_spaces_alone_ = false;
  }

  std::string_view trie_, results_;
  const std::string& name_;
  std::vector<std::uint8_t> nested_;
  bool leaves_spaces_alone_ = true;
};

bool ends_soon_everywhere(std::string_view results) {
  std::size_t length = 0;
  for (const char c : results)
    if (length = c == '\0' ? 0 : length + 1; length > kLongestResult) return false;
  return length == 0;
}
}  // namespace

bool check_normalization_rules(std::string_view rules, const std::string& name) {
  if (rules.empty()) return true;
  require(rules.size() > 4 && rules.size() <= kLargestRules,
          "\"{}\" is damaged: {} bytes of rules of normalization, but 5 to {} are expected; get the file again", name,
          rules.size(), kLargestRules);
  std::size_t length = 0;
  for (std::size_t i = 4; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(rules[i]);
  rules.remove_prefix(4);
  require(length < rules.size() && ends_soon_everywhere(rules.substr(length)),
          "\"{}\" is damaged: its rules of normalization have no end; get the file again", name);
  return TrieWalk(rules.substr(0, length), rules.substr(length), name).leaves_spaces_alone();
}

}  // namespace distdl::tokenizer
