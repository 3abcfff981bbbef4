// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <distdl/parallel/options.hpp>

namespace distdl::parallel {

/// Chooses the compression with which the sums of a step cost the least time, for parallel.compression = "auto".
///
/// A sum costs the time for which the training thread waits for it. The part that the backward pass hides costs only
/// the work of the codec. Measured costs are used as they are. Others are predicted: the time of the messages with the
/// present compression gives the bandwidth. If that time has changed much, the measurements of the other candidates are
/// discarded.
class CompressionChoice {
 public:
  struct Candidate {
    Compression compression = Compression::none;
    double bytes = 0;          ///< bytes that a rank sends in a step, above 0
    double codec_seconds = 0;  ///< time of encoding and decoding in a step
  };
  /// Begins with the first of the candidates.
  explicit CompressionChoice(const std::vector<Candidate>& candidates);
  Compression present() const { return known_[present_].candidate.compression; }
  /// Call between two steps. Takes the time of a step's sums with the present compression, and how long the training
  /// thread waited for them. Returns true if another one costs less by 3% of the sums; it is then the present one.
  /// Equal arguments give equal choices.
  bool decide(double sum_seconds, double waited_seconds);
  /// The measured and predicted costs, for the log: "none 31 ms, int8 9.2 ms predicted".
  std::string times() const;

 private:
  struct Known {
    Candidate candidate;
    std::optional<double> measured = {};  ///< cost in seconds
    double cost = 0;                      ///< measured or predicted, at the last decision
  };
  static double cost_of(const Candidate& candidate, double sum_seconds, double waited_seconds);
  std::vector<Known> known_;
  std::size_t present_ = 0;
  double sum_ = 0;     ///< seconds of the present compression at the last decision; 0: there was none
  double hidden_ = 0;  ///< seconds of sums that the backward pass hides
};

}  // namespace distdl::parallel
