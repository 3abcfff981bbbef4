// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::checkpoint {

struct Options {
  std::int64_t every = 100;         ///< steps between checkpoints; 0: only at the end and when the run must stop
  std::int64_t keep = 3;            ///< newest verified checkpoints that stay; at least 2
  std::int64_t keep_every = 0;      ///< of each so many steps the first checkpoint stays for good; 0: of none
  bool verify_after_write = false;  ///< read every file back before the commit; doubles the time of a save
  double timeout_seconds = 1800;  ///< longest wait for another rank that writes or checks files; for the caller's Group
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("checkpoint.every", options.every, "steps between checkpoints; 0: only at the end and when the run must stop");
  visit("checkpoint.keep", options.keep, "how many of the newest checkpoints stay; at least 2");
  visit("checkpoint.keep_every", options.keep_every,
        "of each so many steps the first checkpoint stays for good; 0: of none");
  visit("checkpoint.verify_after_write", options.verify_after_write,
        "read every file back before the commit; doubles the time of a save");
  visit(
      "checkpoint.timeout_seconds", options.timeout_seconds,
      "longest wait for a rank that prepares, writes, checks or reads files, in seconds; after that it counts as lost");
}

}  // namespace distdl::checkpoint
