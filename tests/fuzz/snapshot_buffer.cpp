// SPDX-License-Identifier: Apache-2.0
// Any bytes as a snapshot in shared memory, and as the list of replicas that ranks send each other.
#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "target.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/inventory.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>

namespace {
using namespace distdl;
using namespace distdl::checkpoint;

constexpr std::size_t kPage = 4096, kMost = 256 << 10;
// Of the header, docs/checkpoint-format.md.
constexpr std::size_t kTextBytes = 56, kChecksumsAt = 64, kChecksums = 72, kChecksumsCrc = 80, kSeal = 148;

/// Memory beyond which nothing may be read.
std::span<std::byte> fenced(std::string_view bytes) {
  static std::byte* const end = [] {
    auto* const start = static_cast<std::byte*>(
        ::mmap(nullptr, kMost + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start == MAP_FAILED || ::mprotect(start + kMost, kPage, PROT_NONE) != 0) std::abort();
    return start + kMost;
  }();
  // A buffer begins on a page and may end anywhere; the last page's rest is zero.
  const std::size_t room = (bytes.size() + kPage - 1) / kPage * kPage;
  std::byte* const buffer = end - room;
  std::memset(buffer, 0, room);
  std::memcpy(buffer, bytes.data(), bytes.size());
  return {buffer, bytes.size()};
}

template <class Number>
Number at(const std::string& buffer, std::size_t offset) {
  Number number{};
  std::memcpy(&number, buffer.data() + offset, sizeof number);
  return number;
}

template <class Number>
void set(std::string& buffer, std::size_t offset, Number number) {
  std::memcpy(buffer.data() + offset, &number, sizeof number);
}

std::uint32_t checksum_of(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

/// Those of the text, of the list of checksums, of the header.
void make_checksums_hold(std::string& buffer) {
  const auto text_bytes = at<std::uint64_t>(buffer, kTextBytes), place = at<std::uint64_t>(buffer, kChecksumsAt),
             count = at<std::uint64_t>(buffer, kChecksums);
  constexpr std::size_t kHashLine = 7 + 64 + 1;
  if (text_bytes <= buffer.size() - kPage && text_bytes > kHashLine) {
    const std::string_view text(buffer.data() + kPage, text_bytes - kHashLine);
    Sha256 hash;
    hash.update(std::as_bytes(std::span(text)));
    const std::string line = "sha256 " + hash.hex() + "\n";
    std::copy(line.begin(), line.end(), buffer.begin() + static_cast<std::ptrdiff_t>(kPage + text.size()));
  }
  if (place <= buffer.size() && count <= (buffer.size() - place) / 4)
    set(buffer, kChecksumsCrc, checksum_of(std::string_view(buffer).substr(place, count * 4)));
  set(buffer, kSeal, checksum_of(std::string_view(buffer).substr(0, kSeal)));
}

/// Input: a byte of flags; header, text and list of checksums, each with two bytes of its length before it; the
/// tensors' bytes. Each goes where fill_buffer() would put it. Flag 1: the checksums of header, text and list are made
/// to hold.
std::string buffer_from(fuzz::Input input) {
  const bool seals = input.number<char>() & 1;
  std::string buffer(input.text().substr(0, kPage));
  buffer.resize(kPage);
  buffer += input.text();
  buffer.resize((buffer.size() + 63) / 64 * 64);
  buffer += input.text();
  buffer.resize((buffer.size() + kPage - 1) / kPage * kPage);
  buffer += input.rest();
  buffer.resize(std::min(buffer.size(), kMost));
  if (seals) make_checksums_hold(buffer);
  return buffer;
}

void read_buffer(std::string_view input) {
  const auto buffer = fenced(buffer_from(fuzz::Input(input)));
  const Snapshot snapshot = open_snapshot(buffer);
  fuzz::demand(snapshot.bytes <= buffer.size(), "a snapshot lies in its buffer");
  if (const auto parity = parity_set_of(snapshot)) {
    const std::size_t longest = *std::max_element(parity->sizes.begin(), parity->sizes.end());
    const ParityLayout layout{static_cast<int>(parity->ranks.size()), longest};
    static_cast<void>(crc32c({snapshot.slices.at(0).bytes, layout.chunk()}));
  }
  verify(snapshot);
}

void read_inventory(std::string_view input) {
  fuzz::Input rest(input);
  const std::string node(rest.text()), text(rest.rest());
  const std::vector<std::string> nodes{node, "n2"};
  const auto ranks = static_cast<int>(nodes.size());
  const auto replicas = replicas_from(text, ranks);
  fuzz::demand(replicas_from(to_text(replicas), ranks).size() == replicas.size(),
               "a list can be written and read again");
  for (const Replica& replica : replicas)
    fuzz::demand(replica.holder >= 0 && replica.holder < ranks && replica.set.size() == replica.sizes.size(),
                 "a holder is a rank, a member of a set has a size");
  if (const auto plan = plan_restore(replicas, nodes))
    for (const ShardPlan& shard : plan->shards) {
      fuzz::demand(!shard.replicas.empty(), "a shard comes from somewhere");
      for (const std::size_t replica : shard.replicas)
        fuzz::demand(replica < replicas.size(), "a plan names what there is");
    }
}

const fuzz::Target buffer("snapshot_buffer", &read_buffer), inventory("inventory", &read_inventory);
}  // namespace
