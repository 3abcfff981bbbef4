// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace distdl::train {

/// What an exchange between the ranks has told of the division of work that is in use: microbatches among ranks, or
/// parameters among servers.
struct Measured {
  std::vector<double> unit_seconds;  ///< of each: what a unit of work takes, above 0
  double step_seconds = 0;           ///< of the slowest
  double other_seconds = 0;          ///< of a step, besides the work of the one that does not wait
};
/// `units`, `unit_seconds`, `step_seconds`: of each rank or server.
Measured measured(std::span<const double> units, std::vector<double> unit_seconds,
                  std::span<const double> step_seconds);

/// The caution with which work moves away from what is slow, the same for all kinds of work. All ranks give it the same
/// numbers, and it depends on nothing else, so all ranks take the same decision.
///
/// Each counts by its median of the last three exchanges. Work moves if the predicted step is at least a tenth shorter,
/// twice in a row. Predictions may be wrong: a rank that shares its processors is quick while it has little to do. So
/// the next steps are a trial. If it fails, the old division comes back, and the rule waits before the next move, each
/// time longer.
class MoveRule {
 public:
  /// bench/balance_rules compares others.
  struct Limits {
    double step = 1.03;          ///< of a trial: a step may take at most so many times as long as before the move
    double seconds_between = 1;  ///< exchanges, about
    std::size_t window = 3;      ///< exchanges whose median counts, at least 2
    double least_gain = 1.1;     ///< of a step's time, for which work moves
    int confirmations = 2;       ///< exchanges in a row that must promise it
    std::int64_t fruitless = 8;  ///< exchanges without a search after one that has found nothing better
  };
  explicit MoveRule(const Limits& limits) : limits_(limits), window_(limits.window) {}

  enum class Next {
    stay,
    look,    ///< for a better division: see confirm()
    go_back  ///< the trial has failed; the division before is in use again
  };
  /// Of an exchange. Begin with this, or with skip().
  Next take(Measured measured);
  /// The exchange counts for nothing, because a time is not known.
  void skip();
  /// After Next::look. `gain`: how many times shorter steps become with the best division that was found; empty: it
  /// cannot be enough. True: it is in use from now on.
  bool confirm(std::optional<double> gain);
  /// The division that is in use cannot be used; the one before is in use again.
  void refuse();

  /// Of the last exchanges; empty until there are enough.
  const Measured& medians() const { return medians_; }
  /// Of the last exchange: why the division before is in use again, in words; empty: it is not.
  const std::string& went_back() const { return went_back_; }
  /// Until the next exchange, and not fewer than kLeastSteps.
  std::int64_t steps_until_next() const { return steps_until_next_; }

  static constexpr std::int64_t kLeastSteps = 4;
  const Limits& limits() const { return limits_; }

 private:
  void remember(Measured measured);
  double median_of(const std::function<double(const Measured&)>& value) const;
  void find_medians();
  void begin_anew();
  bool trial_has_failed();

  Limits limits_;
  std::vector<Measured> window_;  ///< the last ones, under the division in use
  std::size_t exchanges_ = 0;     ///< under it
  Measured medians_;
  int confirmed_ = 0;                      ///< exchanges in a row that promise enough
  std::optional<double> seconds_before_;   ///< of a step before the move that is on trial
  std::int64_t wait_ = 0, next_wait_ = 4;  ///< exchanges without a move
  std::int64_t steps_until_next_ = kLeastSteps;
  std::string went_back_;
};

}  // namespace distdl::train
