// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/processors.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/train/compute/device_replicas.hpp>

namespace distdl::train {
namespace {
/// Names of the threads, by replica.
constexpr std::array<const char*, kMostDevices> kNames{
    "train",    "device 1", "device 2",  "device 3",  "device 4",  "device 5",  "device 6",  "device 7",
    "device 8", "device 9", "device 10", "device 11", "device 12", "device 13", "device 14", "device 15"};
}  // namespace

DeviceReplicas::DeviceReplicas(const Recipe& recipe, kernels::Backend& backend, const OwnedModel& held,
                               std::int64_t samples, std::int64_t count)
    : all_(static_cast<std::size_t>(count)), processors_(all_.size()), errors_(all_.size()) {
  require(count == 1 || backend.memory_is_host(),
          "run.devices_per_rank is {}, but this rank's backend is {}: several devices of a rank are parts of its "
          "processors; start a rank for each GPU, with run.devices_per_rank = 1, or set kernels.backend = \"onednn\"",
          count, backend.name());
  if (count > 1) processors_ = equal_parts(by_place(usable_processors()), all_.size());
  for (std::size_t replica = 1; replica < all_.size(); ++replica)
    threads_.emplace_back([this, replica, recorder = recorder_of_this_thread()](const std::stop_token& stop) {
      const RecordedThread recorded(recorder, kNames[replica]);
      serve(replica, stop);
    });
  run([&](std::size_t replica) {  // so that its memory is near its processors
    DeviceReplica& own = all_[replica];
    if (replica > 0) own.own_backend = kernels::make_backend(recipe.kernels);
    own.backend = replica > 0 ? own.own_backend.get() : &backend;
    own.network =
        std::make_unique<model::Network>(*own.backend, held.model, held.parts.front(), samples, held.activations);
  });
}

std::vector<kernels::Backend*> DeviceReplicas::backends() const {
  std::vector<kernels::Backend*> backends;
  for (const DeviceReplica& replica : all_) backends.push_back(replica.backend);
  return backends;
}

double DeviceReplicas::waited_seconds() const {
  double most = 0;
  for (const DeviceReplica& replica : all_)
    if (replica.reader) most = std::max(most, replica.reader->waited_seconds());
  return most;
}

void DeviceReplicas::run(const Work& work, const std::function<void()>& meanwhile) {
  if (threads_.empty()) return work(0);
  gives_up_ = false;
  std::ranges::fill(errors_, nullptr);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    running_ = threads_.size();
    ++round_;
  }
  begun_.notify_all();
  attempt(0, [&] {
    const BoundThread bound(processors_.front());
    work(0);
  });
  wait_for_others(meanwhile);
  for (const auto& error : errors_)
    if (error) std::rethrow_exception(error);
}

void DeviceReplicas::attempt(std::size_t replica, const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    errors_[replica] = std::current_exception();
    gives_up_ = true;
  }
}

/// They compute, or wait for samples, which has a limit of its own.
void DeviceReplicas::wait_for_others(const std::function<void()>& meanwhile) {
  std::unique_lock lock(mutex_);
  while (running_ > 0) {
    changed_.wait(lock, [this] { return running_ == 0 || has_progress_; });
    if (!std::exchange(has_progress_, false) || !meanwhile || gives_up_) continue;
    lock.unlock();
    attempt(0, meanwhile);
    lock.lock();
  }
  has_progress_ = false;
}

void DeviceReplicas::tell_progress() {
  {
    const std::lock_guard lock(mutex_);
    has_progress_ = true;
  }
  changed_.notify_one();
}

void DeviceReplicas::serve(std::size_t replica, const std::stop_token& stop) {
  bind_this_thread(processors_[replica]);
  const ShownThread shown(kNames[replica]);
  std::unique_lock lock(mutex_);
  std::uint64_t done = 0;
  while (begun_.wait(lock, stop, [&] { return round_ > done; })) {
    done = round_;
    lock.unlock();
    attempt(replica, [&] { (*work_)(replica); });
    enter_phase(RankPhase::idle);
    lock.lock();
    --running_;
    changed_.notify_one();
  }
}

}  // namespace distdl::train
