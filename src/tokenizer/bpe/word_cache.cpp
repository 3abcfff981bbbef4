// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <utility>

#include <distdl/tokenizer/bpe/word_cache.hpp>

namespace distdl::tokenizer {
namespace {
constexpr std::size_t kFewestEntries = 1 << 10, kMostEntries = 1 << 18;
constexpr std::size_t kTextBytes = 4 << 20;
constexpr std::size_t kLongest = 64;  ///< longer words hardly come again

/// FNV-1a by eight bytes, and a last mixing step of MurmurHash3. Never 0.
std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ word.size();
  const auto take = [&](std::uint64_t bytes) { hash = (hash ^ bytes) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29; };
  while (word.size() >= sizeof(std::uint64_t)) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, word.data(), sizeof bytes);
    take(bytes);
    word.remove_prefix(sizeof bytes);
  }
  std::uint64_t rest = 0;
  for (const char byte : word) rest = rest << 8 | static_cast<std::uint8_t>(byte);
  take(rest);
  hash ^= hash >> 32;
  return hash | 1;
}
}  // namespace

WordCache::WordCache() : entries_(kFewestEntries) {}

WordCache::Entry& WordCache::place_of(std::string_view word, std::uint64_t hash) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t place = hash >> 8 & mask;
  while (entries_[place].hash != 0) {
    const Entry& entry = entries_[place];
    if (entry.hash == hash && entry.bytes == word.size() &&
        std::memcmp(text_.data() + entry.at, word.data(), word.size()) == 0)
      break;
    place = (place + 1) & mask;
  }
  return entries_[place];
}

bool WordCache::append(std::string_view word, std::vector<Token>& tokens) {
  if (word.size() > kLongest) return false;
  const Entry& entry = place_of(word, hash_of(word));
  if (entry.hash == 0) return false;
  if (entry.tokens == 1) {
    tokens.push_back(entry.first);
  } else {
    const auto begin = tokens_.begin() + entry.tokens_at;
    tokens.insert(tokens.end(), begin, begin + entry.tokens);
  }
  return true;
}

void WordCache::remember(std::string_view word, std::span<const Token> tokens) {
  if (word.size() > kLongest || tokens.empty()) return;
  if (2 * used_ == entries_.size()) make_room();
  if (text_.size() + word.size() > kTextBytes) clear();
  const std::uint64_t hash = hash_of(word);
  place_of(word, hash) = {hash,
                          static_cast<std::uint32_t>(text_.size()),
                          static_cast<std::uint32_t>(tokens_.size()),
                          static_cast<std::uint16_t>(word.size()),
                          static_cast<std::uint16_t>(tokens.size()),
                          tokens[0]};
  text_.insert(text_.end(), word.begin(), word.end());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

void WordCache::make_room() {
  if (entries_.size() == kMostEntries) return clear();
  const std::vector<Entry> before(std::exchange(entries_, std::vector<Entry>(2 * entries_.size())));
  for (const Entry& entry : before)
    if (entry.hash != 0) place_of({text_.data() + entry.at, entry.bytes}, entry.hash) = entry;
}

void WordCache::clear() {
  entries_.assign(entries_.size(), Entry{});
  used_ = 0;
  text_.clear();
  tokens_.clear();
}

}  // namespace distdl::tokenizer
