// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/device/far_accelerator.hpp"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/reduce/reduce.hpp>

namespace distdl::comm {
namespace {

constexpr int kQueueBits = 2;

std::byte* map(int file, std::size_t bytes, int protection) {
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
  require<InternalError>(address != MAP_FAILED, "mmap of {} bytes", bytes);
  return static_cast<std::byte*>(address);
}

std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void protect(std::byte* begin, std::size_t bytes, int protection) {
  require<InternalError>(::mprotect(begin, bytes, protection) == 0, "mprotect of {} bytes", bytes);
}

}  // namespace

FarAccelerator::FarAccelerator(Memory memory, unsigned seed)
    : memory_(memory), random_(seed), thread_([this] { work(); }) {}

FarAccelerator::~FarAccelerator() {
  drain();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool FarAccelerator::owns(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(at);
  return after != ranges_.begin() && at < (--after)->first + after->second.bytes;
}

std::byte* FarAccelerator::inside(const void* address) const {
  require<InternalError>(owns(address), "the device is to work on memory that it does not have");
  const auto* at = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  const auto range = std::prev(ranges_.upper_bound(at));
  return range->second.inside + (at - range->first);
}

tensor::Buffer FarAccelerator::map_twice(std::size_t bytes, std::optional<tensor::Granules> reserved) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const int file = ::memfd_create("far", MFD_CLOEXEC);
  require<InternalError>(file >= 0 && ::ftruncate(file, static_cast<off_t>(size)) == 0, "memfd of {} bytes", size);
  std::byte* const real = map(file, size, reserved ? PROT_NONE : PROT_READ | PROT_WRITE);
  std::byte* const seen = map(file, size, memory_ == Memory::visible ? PROT_READ | PROT_WRITE : PROT_NONE);
  ::close(file);
  const std::lock_guard lock(mutex_);
  ranges_.insert({seen, {size, real, std::move(reserved)}});
  return {seen, bytes, [this, size, real](void* address) {
            drain();
            {
              const std::lock_guard again(mutex_);
              ranges_.erase(static_cast<const std::byte*>(address));
            }
            ::munmap(address, size);
            ::munmap(real, size);
          }};
}

tensor::Buffer FarAccelerator::allocate(std::size_t bytes) {
  auto memory = map_twice(bytes, {});
  std::memset(inside(memory.data()), 0x5A, std::max<std::size_t>(bytes, 1));  // nobody promised zeros
  return memory;
}

tensor::Buffer FarAccelerator::reserve(std::size_t bytes) {
  return map_twice(bytes, tensor::Granules(std::max<std::size_t>(bytes, 1), page()));
}

FarAccelerator::Range& FarAccelerator::reserved_at(const std::byte* address, std::size_t& offset) {
  const auto after = ranges_.upper_bound(address);
  const bool is_reserved = after != ranges_.begin() && std::prev(after)->second.reserved;
  require<InternalError>(is_reserved, "{}", "memory of a device that is to come and go was not reserved");
  offset = static_cast<std::size_t>(address - std::prev(after)->first);
  return std::prev(after)->second;
}

void FarAccelerator::commit(std::span<std::byte> memory) {
  if (memory.empty()) return;
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;
  Range& range = reserved_at(memory.data(), offset);
  for (const auto& [first, count] : range.reserved->commit(offset, offset + memory.size()))
    protect(range.inside + first * page(), count * page(), PROT_READ | PROT_WRITE);
}

void FarAccelerator::discard(std::span<std::byte> memory) {
  if (memory.empty()) return;
  drain();
  const std::lock_guard lock(mutex_);
  std::size_t offset = 0;
  Range& range = reserved_at(memory.data(), offset);
  for (const auto& [first, count] : range.reserved->discard(offset, offset + memory.size())) {
    std::byte* const begin = range.inside + first * page();
    std::memset(begin, 0, std::min(count * page(), range.bytes - first * page()));
    protect(begin, count * page(), PROT_NONE);
  }
}

std::size_t FarAccelerator::committed() const {
  const std::lock_guard lock(mutex_);
  std::size_t granules = 0;
  for (const auto& [address, range] : ranges_)
    if (range.reserved) granules += range.reserved->committed();
  return granules * page();
}

tensor::Buffer FarAccelerator::allocate_staging(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  staged_ += bytes;
  return tensor::allocate_host(bytes);
}

std::size_t FarAccelerator::staged() const {
  const std::lock_guard lock(mutex_);
  return staged_;
}

std::uint64_t FarAccelerator::put(Queue queue, std::function<void()> run, std::array<std::uint64_t, kQueues> after) {
  const std::lock_guard lock(mutex_);
  queues_[queue].push_back({std::move(run), after});
  changed_.notify_all();
  return ++put_[queue];
}

void FarAccelerator::follow_caller() {
  require<InternalError>(!is_recording_, "{}", "an operation of several ranks is among what the device records");
  put(kMain, [] {}, {0, 0, put_[kCaller]});
}

FarAccelerator::Mark FarAccelerator::copy_to_host(void* to, const void* from, std::size_t bytes) {
  require<InternalError>(!owns(to), "a copy to the host goes to the device");
  const std::byte* source = inside(from);
  return put(kToHost, [=] { std::memcpy(to, source, bytes); }, {put_[kMain], 0, 0}) << kQueueBits | kToHost;
}

void FarAccelerator::copy_from_host(void* to, const void* from, std::size_t bytes) {
  require<InternalError>(!owns(from), "a copy from the host comes from the device");
  std::byte* target = inside(to);
  put(kMain, [=] { std::memcpy(target, from, bytes); });
}

void FarAccelerator::reduce(DataType type, Reduction reduction, std::span<const tensor::ReduceSource> sources,
                            std::span<void* const> targets, std::size_t count, double scale) {
  std::vector<tensor::ReduceSource> real_sources;
  std::vector<void*> real_targets;
  for (const auto& source : sources) real_sources.push_back({inside(source.data), source.reductions});
  for (void* target : targets) real_targets.push_back(inside(target));
  put(kMain, [=] { comm::reduce(type, reduction, real_sources, real_targets, count, scale); });
}

void FarAccelerator::offer_library_queue() {
  library_ = std::make_unique<LibraryQueue>();
  library_->put = [this](std::function<void()> run) { put(kLibrary, std::move(run)); };
  library_->inside = [this](const void* address) { return inside(address); };
}

void* FarAccelerator::library_queue() {
  if (library_) put(kLibrary, [] {}, {0, 0, put_[kCaller]});
  return library_.get();
}

FarAccelerator::Mark FarAccelerator::mark_library() {
  return put_[kLibrary] << kQueueBits | kLibrary;
}

FarAccelerator::Mark FarAccelerator::mark() {
  return put_[kMain] << kQueueBits | kMain;
}

bool FarAccelerator::reached(Mark mark) {
  const std::lock_guard lock(mutex_);
  return done_[mark & ((1 << kQueueBits) - 1)] >= mark >> kQueueBits;
}

bool FarAccelerator::all_done() const {
  return done_ == put_;
}

void FarAccelerator::drain() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return all_done(); });
}

void FarAccelerator::write_late(void* to, std::vector<std::byte> bytes, Clock::duration delay) {
  std::byte* target = inside(to);
  put(kCaller, [=, bytes = std::move(bytes)] {
    std::this_thread::sleep_for(delay);
    std::memcpy(target, bytes.data(), bytes.size());
  });
}

void FarAccelerator::freeze(Clock::duration time) {
  const std::lock_guard lock(mutex_);
  frozen_until_ = Clock::now() + time;
}

bool FarAccelerator::may_run(int queue) const {
  if (queues_[queue].empty()) return false;
  const auto& after = queues_[queue].front().after;
  for (int other = 0; other < kQueues; ++other)
    if (done_[other] < after[other]) return false;
  return true;
}

/// Of the queues whose next work may be done, takes any: so copies to the host come as late as they may, or early.
void FarAccelerator::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !all_done(); });
    if (stop_) return;
    std::vector<int> ready;
    for (int queue = 0; queue < kQueues; ++queue)
      if (may_run(queue)) ready.push_back(queue);
    const int queue = ready[random_() % ready.size()];
    Work work = std::move(queues_[queue].front());
    queues_[queue].pop_front();
    const auto until = frozen_until_;
    const std::chrono::microseconds delay(random_() % 4 == 0 ? random_() % 200 : 0);
    lock.unlock();
    std::this_thread::sleep_until(until);
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    work.run();
    lock.lock();
    ++done_[queue];
    changed_.notify_all();
  }
}

}  // namespace distdl::comm
