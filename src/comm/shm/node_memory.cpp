// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <new>

#include <distdl/base/errors.hpp>
#include <distdl/comm/shm/node_memory.hpp>
#include <distdl/comm/shm/shared_segment.hpp>

namespace distdl::comm {
namespace {

using Mapping = SharedSegment::Mapping;

// A location is (buffer id + 1) << kOffsetBits | offset.
constexpr int kOffsetBits = 40;
constexpr std::uint64_t kOffsets = (std::uint64_t{1} << kOffsetBits) - 1;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
static_assert(offsetof(ControlBlock, payload) == 24 && sizeof(ControlBlock) == 128,
              "40 bytes of payload beside `reached`, all in one pair of lines");

RankArea* area_in(const SharedSegment& segment) {
  auto* const area = std::launder(reinterpret_cast<RankArea*>(segment.data()));
  if (segment.bytes() != sizeof(RankArea) || area->magic.load(std::memory_order_acquire) != RankArea::kMagic)
    throw CommError(
        fmt::format("{} was created by another version of distdl; run the same version on all ranks", segment.name()),
        ExitCode::config);
  return area;
}

std::vector<std::shared_ptr<SharedSegment>> open_all(std::span<const Rank> ranks, std::span<const std::string> names,
                                                     Mapping mapping) {
  std::vector<std::shared_ptr<SharedSegment>> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    try {
      all.push_back(SharedSegment::open(names[i], mapping));
    } catch (const Error& error) {
      throw CommError(fmt::format("cannot share memory with rank {}: {}", ranks[i], error.what()), error.exit_code());
    }
  }
  return all;
}

}  // namespace

struct NodeMemory::Buffer {
  int id;
  std::shared_ptr<SharedSegment> own;
  std::vector<std::shared_ptr<SharedSegment>> all;  ///< per rank of the node; empty until attached
};

struct NodeMemory::HasId {
  int id;
  bool operator()(const Buffer& buffer) const { return buffer.id == id; }
};

NodeMemory::NodeMemory(const std::string& job) : job_(job), own_(SharedSegment::create(job, sizeof(RankArea))) {
  new (own_->data()) RankArea;  // not "{}": fresh memory is 0
  reinterpret_cast<RankArea*>(own_->data())->magic.store(RankArea::kMagic, std::memory_order_release);
}

NodeMemory::~NodeMemory() {
  unlink();
  for (const Buffer& buffer : buffers_) buffer.own->unlink();
}

std::string NodeMemory::name() const {
  return own_->name();
}

void NodeMemory::attach(std::span<const NodeRank> node_ranks) {
  std::vector<Rank> ranks;
  std::vector<std::string> names;
  for (const NodeRank& node_rank : node_ranks) {
    ranks.push_back(node_rank.rank);
    names.push_back(node_rank.segment);
  }
  const auto self = std::find(names.begin(), names.end(), name());
  require<InternalError>(self != names.end(), "this rank is not one of the {} ranks that share memory", names.size());
  auto segments = open_all(ranks, names, Mapping::lazy);
  std::vector<RankArea*> areas;
  areas.reserve(segments.size());
  for (const auto& segment : segments) areas.push_back(area_in(*segment));

  self_ = static_cast<int>(self - names.begin());
  segments_ = std::move(segments);
  areas_ = std::move(areas);
  ranks_ = std::move(ranks);
  board_ = &areas_[0]->board;
}

void NodeMemory::unlink() noexcept {
  own_->unlink();
}

std::uint64_t NodeMemory::locate(const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  // The last buffer that begins at or before `data`.
  const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), address, [](auto value, const Buffer& buffer) {
    return value < reinterpret_cast<std::uintptr_t>(buffer.own->data());
  });
  if (after == buffers_.begin()) return 0;
  const Buffer& buffer = *std::prev(after);
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(buffer.own->data());
  if (buffer.all.empty() || offset > buffer.own->bytes() || bytes > buffer.own->bytes() - offset) return 0;
  return location_of(buffer.id) | offset;
}

std::uint64_t NodeMemory::location_of(int id) {
  return (static_cast<std::uint64_t>(id) + 1) << kOffsetBits;
}

std::byte* NodeMemory::resolve(int local, std::uint64_t location) const {
  const auto buffer =
      std::find_if(buffers_.begin(), buffers_.end(), HasId{static_cast<int>(location >> kOffsetBits) - 1});
  assert(buffer != buffers_.end() && (location & kOffsets) <= buffer->all[local]->bytes());
  return buffer->all[local]->data() + (location & kOffsets);
}

NodeMemory::Created NodeMemory::create_buffer(std::size_t bytes) {
  const int id = next_buffer_++;  // also if it fails: all ranks count alike
  require<InternalError>(bytes <= kOffsets, "a shared buffer has {} bytes, but at most {} were expected", bytes,
                         kOffsets);
  Buffer buffer{id, SharedSegment::create(job_, std::max<std::size_t>(bytes, 1)), {}};
  Created created{buffer.id, buffer.own->name(), buffer.own->data()};
  const auto after = std::find_if(buffers_.begin(), buffers_.end(),
                                  [&](const Buffer& other) { return other.own->data() > buffer.own->data(); });
  buffers_.insert(after, std::move(buffer));
  return created;
}

void NodeMemory::attach_buffer(int id, std::span<const std::string> segments) {
  const auto buffer = std::find_if(buffers_.begin(), buffers_.end(), HasId{id});
  require<InternalError>(buffer != buffers_.end() && segments.size() == ranks_.size(),
                         "buffer {} has {} segments for {} ranks of the node", id, segments.size(), ranks_.size());
  buffer->all = open_all(ranks_, segments, Mapping::eager);
}

void NodeMemory::unlink_buffer(int id) noexcept {
  const auto buffer = std::find_if(buffers_.begin(), buffers_.end(), HasId{id});
  if (buffer != buffers_.end()) buffer->own->unlink();
}

void NodeMemory::release_buffer(int id) noexcept {
  unlink_buffer(id);
  std::erase_if(buffers_, HasId{id});
}

void NodeMemory::post_loss(const NodeLoss& loss) noexcept {
  if (!board_ || board_->load(std::memory_order_acquire) != 0 || has_posted_.test_and_set()) return;
  LossRecord& record = areas_[self_]->loss;
  record.rank = loss.rank.value;
  record.exit_code = loss.exit_code;
  const std::size_t length = std::min(loss.why.size(), sizeof record.why - 1);
  std::memcpy(record.why, loss.why.data(), length);
  record.why[length] = '\0';
  std::uint32_t none = 0;
  board_->compare_exchange_strong(none, static_cast<std::uint32_t>(self_) + 1, std::memory_order_acq_rel);
}

std::optional<NodeLoss> NodeMemory::read_loss() const {
  const std::uint32_t writer = board_->load(std::memory_order_acquire);
  if (writer > areas_.size()) return std::nullopt;  // nobody's work
  const LossRecord& record = areas_[writer - 1]->loss;
  return NodeLoss{Rank(record.rank), record.exit_code, {record.why, ::strnlen(record.why, sizeof record.why)}};
}

void NodeMemory::show_wait(std::optional<Rank> awaited, const Operation& operation) {
  if (areas_.empty()) return;
  const std::string text = to_string(operation);
  std::array<std::uint64_t, WaitRecord::kWords> words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof words - 1));
  WaitRecord& record = areas_[self_]->wait;
  const auto looks = record.looks.load(std::memory_order_relaxed);
  record.looks.store(looks + 1, std::memory_order_relaxed);
  record.awaited.store(awaited ? static_cast<std::uint64_t>(awaited->value) + 1 : 0, std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) record.operation[i].store(words[i], std::memory_order_release);
  record.looks.store(looks + 2, std::memory_order_release);
}

std::optional<NodeWait> NodeMemory::shown_wait(Rank rank) const {
  const auto place = std::find(ranks_.begin(), ranks_.end(), rank);
  if (place == ranks_.end()) return std::nullopt;
  const WaitRecord& record = areas_[place - ranks_.begin()]->wait;
  NodeWait wait;
  wait.looks = record.looks.load(std::memory_order_acquire);
  const auto awaited = record.awaited.load(std::memory_order_acquire);
  std::array<std::uint64_t, WaitRecord::kWords> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = record.operation[i].load(std::memory_order_acquire);
  if (wait.looks == 0 || wait.looks % 2 != 0 || record.looks.load(std::memory_order_relaxed) != wait.looks)
    return std::nullopt;
  if (awaited > 0) wait.awaited = Rank(static_cast<int>(awaited - 1));
  const auto* const operation = reinterpret_cast<const char*>(words.data());
  wait.operation.assign(operation, ::strnlen(operation, sizeof words));
  return wait;
}

int NodeMemory::sweep() {
  return SharedSegment::sweep();
}

}  // namespace distdl::comm
