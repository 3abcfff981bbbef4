// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/compression_choice.hpp>

namespace distdl::train {

/// With parallel.compression = "auto": measures what steps cost, and chooses with all ranks for the next ones.
class CompressionChoosing {
 public:
  /// Cost of a step on this rank with a compression.
  using Candidate = parallel::CompressionChoice::Candidate;
  using CostOf = std::function<Candidate(parallel::Compression)>;
  /// Collective. There is nothing to choose where all ranks are on one host; the log says so.
  CompressionChoosing(comm::Communicator& communicator, const CostOf& cost_of);

  parallel::Compression present() const { return choice_ ? choice_->present() : parallel::Compression::none; }
  /// Collective, after so many steps, with the seconds of the sums of one step, and those in which the training thread
  /// waited for them. Returns the reason if another compression is used from now on.
  std::optional<std::string> steps_done(std::int64_t steps, double sum_seconds, double waited_seconds);

 private:
  comm::Communicator& communicator_;
  std::optional<parallel::CompressionChoice> choice_;
  std::int64_t steps_ = 0, until_ = 0;  ///< since the last decision, and to the next one
  std::array<double, 2> least_ = {};  ///< shortest times since then: seconds of a step's sums, and of the wait for them
};

}  // namespace distdl::train
