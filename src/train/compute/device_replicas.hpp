// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <distdl/data/prefetcher.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::train {

/// The objects with which a device of a rank computes microbatches. They belong to one thread at a time.
struct DeviceReplica {
  std::unique_ptr<kernels::Backend> own_backend;  ///< null for the first replica, which uses the rank's backend
  kernels::Backend* backend = nullptr;
  std::unique_ptr<model::Network> network;
  data::Sources sources;                     ///< sources of its reader; the first replica reads those of the rank
  std::optional<data::Prefetcher> reader;    ///< none: it needs no samples
  std::vector<tensor::Buffer> partial_sums;  ///< for a worker that computes a part: sums by the level of the addend
};

/// The devices of a rank (run.devices_per_rank), which compute some of its microbatches each: on a CPU parts of the
/// rank's processors. Each replica has a thread but for the first, which is the caller's.
class DeviceReplicas {
 public:
  /// Not collective. Makes all but the readers. The references must outlive this object. Throws ConfigError for several
  /// replicas if `backend` is that of a GPU.
  DeviceReplicas(const Recipe& recipe, kernels::Backend& backend, const OwnedModel& held, std::int64_t samples,
                 std::int64_t count);

  std::size_t size() const { return all_.size(); }
  DeviceReplica& operator[](std::size_t replica) { return all_[replica]; }
  std::vector<kernels::Backend*> backends() const;
  /// The longest time for which a replica has waited for samples, in seconds.
  double waited_seconds() const;

  /// Calls work(replica) for all replicas at the same time, each in its thread, and bound to its processors. The
  /// caller's thread calls `meanwhile` when its own work is done and others tell_progress(). Throws when all have
  /// ended, what the first of them has thrown.
  using Work = std::function<void(std::size_t replica)>;
  void run(const Work& work, const std::function<void()>& meanwhile = {});
  /// Makes run() call `meanwhile`. The work of any replica may call it.
  void tell_progress();
  /// True if the work of another replica has thrown, so that there is no use in continuing.
  bool gives_up() const { return gives_up_; }

 private:
  void serve(std::size_t replica, const std::stop_token& stop);
  void wait_for_others(const std::function<void()>& meanwhile);
  /// Calls work() and keeps an exception of it in errors_.
  void attempt(std::size_t replica, const std::function<void()>& work);

  std::vector<DeviceReplica> all_;
  std::vector<std::vector<int>> processors_;  ///< processors of each replica; empty parts: there are too few processors
  std::vector<std::exception_ptr> errors_;    ///< exceptions of the work under way, by replica
  std::atomic<bool> gives_up_ = false;
  std::mutex mutex_;
  std::condition_variable_any begun_;
  std::condition_variable changed_;
  const Work* work_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t running_ = 0;  ///< threads
  bool has_progress_ = false;
  std::vector<std::jthread> threads_;  ///< the last member: they end first
};

}  // namespace distdl::train
