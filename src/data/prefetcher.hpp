// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include <distdl/base/clock.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/data/mixing.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {

/// Reads training batches before they are used, in a separate thread.
class Prefetcher {
 public:
  /// The position that is read after a position, see Sampler.
  using Next = std::function<std::int64_t(std::int64_t)>;
  static constexpr std::size_t kUsualDepth = 3;
  /// Reads batches of `batch` samples, up to `depth` of them ahead, and mixes the images of each. `source` must outlive
  /// the prefetcher, and only the prefetcher's thread may use it.
  Prefetcher(Source& source, Sampler sampler, std::int64_t batch, Next next, std::size_t depth = kUsualDepth,
             Mixing mixing = {});
  ~Prefetcher();

  /// How long at() waits.
  struct Patience {
    Clock::duration most = std::chrono::minutes(10);
    Clock::duration after_stop = std::chrono::seconds(15);  ///< once the process was asked to stop
  };
  /// The samples starting at `position` of the stream, valid until the next call. Any position is allowed, but only the
  /// next one is read ahead. Rethrows errors of reading. Throws StorageError if reading takes too long: after a request
  /// to stop with ExitCode::requeue. Time in which the process is suspended does not count.
  const Batch& at(std::int64_t position, const Patience& patience);
  const Batch& at(std::int64_t position) { return at(position, Patience{}); }
  /// Drops what was read ahead, and reads on from `position` in another order.
  void read_from(std::int64_t position, Next next);
  /// Total seconds of waiting in at().
  double waited_seconds() const noexcept { return waited_; }

 private:
  struct Read {
    std::int64_t position = 0;
    Batch batch;
    std::exception_ptr error;
  };
  void run();
  Read read(std::int64_t position, Batch memory);
  bool wait_for_batch(std::unique_lock<std::mutex>& lock, const Patience& patience);

  Source& source_;
  Sampler sampler_;
  std::int64_t size_;
  Next next_;
  std::size_t depth_;
  Mixing mixing_;
  std::vector<Source::Pick> picks_;  // used by the thread
  double waited_ = 0;                // used by the caller
  std::optional<ExitCode> hangs_;    // used by the caller: reading took too long

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Read> ready_;     // in the order of use
  Read used_;                  // the last result of at()
  std::vector<Batch> spare_;   // memory of used batches
  std::int64_t to_read_ = -1;  // -1: nothing was requested yet
  std::uint64_t round_ = 0;    // batches that were read for an earlier round are discarded
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace distdl::data
