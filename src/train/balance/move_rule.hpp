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

/// Times that an exchange between the ranks has found with the division of work in use: microbatches among ranks, or
/// parameters among servers.
struct Measured {
  std::vector<double> unit_seconds;  ///< seconds of a unit of work on each rank or server, above 0
  double step_seconds = 0;           ///< seconds of a step on the slowest one
  double other_seconds = 0;          ///< seconds of a step besides the work, on the one that does not wait
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
    double step = 1.03;          ///< longest step of a successful trial, as a multiple of a step before the move
    double seconds_between = 1;  ///< approximate seconds between two exchanges
    std::size_t window = 3;      ///< exchanges whose median counts, at least 2
    double least_gain = 1.1;     ///< least gain for which work moves: step time now / predicted step time
    int confirmations = 2;       ///< exchanges in a row that must promise this gain
    std::int64_t fruitless = 8;  ///< exchanges without a search after one that has found nothing better
  };
  explicit MoveRule(const Limits& limits) : limits_(limits), window_(limits.window) {}

  enum class Next {
    stay,
    look,    ///< look for a better division, see confirm()
    go_back  ///< the trial has failed; the division before is in use again
  };
  /// Takes the times of an exchange and returns what to do. Call this, or skip(), first after each exchange.
  Next take(Measured measured);
  /// Ignores an exchange, because a time is unknown.
  void skip();
  /// After Next::look. `gain`: how many times shorter steps become with the best division that was found; empty: it
  /// cannot be enough. True: it is in use from now on.
  bool confirm(std::optional<double> gain);
  /// The division that is in use cannot be used; the one before is in use again.
  void refuse();

  /// Medians of the last exchanges; empty until there are enough.
  const Measured& medians() const { return medians_; }
  /// The reason why the division before is in use again since the last exchange, in words; empty: it is not.
  const std::string& went_back() const { return went_back_; }
  /// Steps until the next exchange, at least kLeastSteps.
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
  std::optional<double> seconds_before_;   ///< seconds of a step before the move that is on trial
  std::int64_t wait_ = 0, next_wait_ = 4;  ///< exchanges without a move
  std::int64_t steps_until_next_ = kLeastSteps;
  std::string went_back_;
};

}  // namespace distdl::train
