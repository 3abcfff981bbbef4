// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>

#include <distdl/tokenizer/bpe/byte_pairs.hpp>

namespace distdl::tokenizer {
namespace {
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

std::uint64_t pair_of(Token left, Token right) {
  return std::uint64_t{left} << 32 | right;
}
}  // namespace

MergeTable::MergeTable(std::size_t count) : entries_(std::bit_ceil(2 * count + 2), Entry{kEmpty, {}}) {}

std::size_t MergeTable::place_of(std::uint64_t pair) const noexcept {
  const std::size_t mask = entries_.size() - 1;
  std::size_t place = (pair * 0x9e3779b97f4a7c15u >> 20) & mask;
  while (entries_[place].pair != pair && entries_[place].pair != kEmpty) place = (place + 1) & mask;
  return place;
}

void MergeTable::put(Token left, Token right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  entries_[place_of(pair)] = {pair, merge};
}

const MergeTable::Merge* MergeTable::find(Token left, Token right) const noexcept {
  const Entry& entry = entries_[place_of(pair_of(left, right))];
  return entry.pair == kEmpty ? nullptr : &entry.merge;
}

void WordMerger::append(std::string_view word, std::vector<Token>& tokens) {
  constexpr std::size_t kShort = 48;  // below it a search of all pairs is quicker than a heap
  word.size() <= kShort ? append_short(word, tokens) : append_long(word, tokens);
}

void WordMerger::append_short(std::string_view word, std::vector<Token>& tokens) {
  // The ranks and results of pairs are looked up once, and then only beside a merge.
  constexpr std::uint32_t kApart = std::numeric_limits<std::uint32_t>::max();
  struct Pair {
    Token token;
    MergeTable::Merge with_next;
  };
  std::array<Pair, 64> pairs;  // NOLINT(cppcoreguidelines-pro-type-member-init): the first `count` are used
  std::size_t count = word.size();
  const auto look_up = [&](std::size_t i) {
    const auto* const merge = i + 1 < count ? table_.find(pairs[i].token, pairs[i + 1].token) : nullptr;
    pairs[i].with_next = merge ? *merge : MergeTable::Merge{kApart, 0};
  };
  for (std::size_t i = 0; i < count; ++i) pairs[i].token = bytes_[static_cast<std::uint8_t>(word[i])];
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].with_next.rank < pairs[best].with_next.rank) best = i;
    if (pairs[best].with_next.rank == kApart) break;
    pairs[best].token = pairs[best].with_next.result;
    std::copy(pairs.begin() + static_cast<std::ptrdiff_t>(best) + 2, pairs.begin() + static_cast<std::ptrdiff_t>(count),
              pairs.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(pairs[i].token);
}

/// Puts the pair that begins with this symbol on the heap.
void WordMerger::propose(std::uint32_t left) {
  if (left == kNowhere || symbols_[left].next == kNowhere) return;
  const auto* const merge = table_.find(symbols_[left].token, symbols_[symbols_[left].next].token);
  if (!merge) return;
  heap_.push_back({merge->rank, left, merge->result});
  std::ranges::push_heap(heap_, [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  });
}

void WordMerger::append_long(std::string_view word, std::vector<Token>& tokens) {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  };
  const auto count = static_cast<std::uint32_t>(word.size());
  symbols_.resize(count);
  heap_.clear();
  for (std::uint32_t i = 0; i < count; ++i)
    symbols_[i] = {bytes_[static_cast<std::uint8_t>(word[i])], i == 0 ? kNowhere : i - 1,
                   i + 1 == count ? kNowhere : i + 1, false};
  for (std::uint32_t i = 0; i < count; ++i) propose(i);
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Symbol& left = symbols_[best.place];
    if (left.is_gone || left.next == kNowhere) continue;
    Symbol& right = symbols_[left.next];
    const auto* const merge = table_.find(left.token, right.token);
    if (!merge || merge->rank != best.rank || merge->result != best.result) continue;  // the pair is another one now
    left.token = best.result;
    right.is_gone = true;
    left.next = right.next;
    if (left.next != kNowhere) symbols_[left.next].previous = best.place;
    propose(best.place);
    propose(left.previous);
  }
  for (std::uint32_t i = 0; i != kNowhere; i = symbols_[i].next) tokens.push_back(symbols_[i].token);
}

}  // namespace distdl::tokenizer
