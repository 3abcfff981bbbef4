// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/observe/trace/trace.hpp>

namespace distdl::observe {

/// Where the time of traced steps goes. All seconds are per step.
struct TraceSummary {
  struct Share {
    std::string name;    ///< a phase of the training thread, such as "compute"; or a layer
    double seconds = 0;  ///< mean over the ranks
    double share = 0;    ///< share of the time from step to step, 0 to 1
  };
  struct OfRank {
    int rank = 0;
    std::string host;
    double compute_seconds = 0;  ///< time in the phase "compute", without waits for other ranks
    double waited_seconds = 0;   ///< waits for other ranks that came later, in all threads but the writer's
    double awaited_seconds = 0;  ///< waits of all other ranks for this one, added up

    /// Seconds that the rank costs the others. A rank that is late because it waits itself has none, or less than none.
    double net_awaited_seconds() const { return awaited_seconds - waited_seconds; }
  };
  /// The time that one rank waits because another one comes later.
  struct Wait {
    int rank = 0, awaited = 0;
    double seconds = 0;
  };
  train::TracedSteps steps;
  std::int64_t count = 0;     ///< number of steps that some rank has recorded
  double step_seconds = 0;    ///< mean over ranks and steps
  double period_seconds = 0;  ///< the same with what lies between two steps: evaluations, saves
  double clock_error_seconds = 0;
  std::vector<Share> phases;  ///< the longest first
  std::vector<Share> layers;  ///< forward and backward, the longest first
  std::vector<OfRank> ranks;
  std::vector<Wait> waits;                     ///< the longest first
  double sum_seconds = 0;                      ///< time of the buckets' sums, mean over the ranks
  double exposed_seconds = 0;                  ///< time for which the training thread waited for these sums
  double copy_seconds = 0, write_seconds = 0;  ///< time of saves in whichever thread, mean over the ranks
  std::uint64_t messages = 0, message_bytes = 0, unmatched = 0, lost = 0;
  std::vector<int> missing;  ///< ranks without a file
  std::vector<int> torn;     ///< ranks whose file ends in the middle of a record
  std::vector<std::string> advice;

  /// The part of the sums that the backward pass and the update hide, 0 to 1.
  double hidden_share() const;
};

TraceSummary summarize_trace(const Trace& trace);

/// In words.
std::string to_text(const TraceSummary& summary);
/// For machines: the fields above in JSON, an object.
std::string to_json_text(const TraceSummary& summary);

}  // namespace distdl::observe
