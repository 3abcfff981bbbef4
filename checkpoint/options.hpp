// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::checkpoint {

struct Options {
  std::int64_t every = 100;         ///< steps between checkpoints; 0: only at the end and when the run must stop
  std::int64_t keep = 3;            ///< newest verified checkpoints that stay; at least 2
  bool verify_after_write = false;  ///< read every file back before the commit; doubles the time of a save
  double timeout_seconds = 1800;  ///< longest wait for another rank that writes or checks files; for the caller's Group
  std::string mode = "async";     ///< "async": training waits for a copy in memory; "lazy": not even for that, but for
                                  ///< its end before the next update; "sync": training waits for the disk
  std::int64_t copy_threads = 1;  ///< of a rank that copies its state; more help where memory is faster than a core
  std::int64_t write_threads = 2;  ///< of a rank that writes or reads its file
};

/// Throws ConfigError for values that make no sense.
void check(const Options& options);

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("checkpoint.every", options.every, "steps between checkpoints; 0: only at the end and when the run must stop");
  visit("checkpoint.keep", options.keep, "how many of the newest checkpoints stay; at least 2");
  visit("checkpoint.verify_after_write", options.verify_after_write,
        "read every file back before the commit; doubles the time of a save");
  visit(
      "checkpoint.timeout_seconds", options.timeout_seconds,
      "longest wait for a rank that prepares, writes, checks or reads files, in seconds; after that it counts as lost");
  visit("checkpoint.mode", options.mode,
        "\"async\": training waits while its state is copied, twice its size in /dev/shm is needed; \"lazy\": the copy "
        "is "
        "made during the next forward and backward pass; \"sync\": training waits for the disk");
  visit("checkpoint.copy_threads", options.copy_threads, "threads of a rank that copy its state");
  visit("checkpoint.write_threads", options.write_threads, "threads of a rank that write or read its file");
}

}  // namespace distdl::checkpoint
