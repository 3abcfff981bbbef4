// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include <distdl/base/philox.hpp>
#include <distdl/forecast/goodput.hpp>

namespace distdl::forecast {
namespace {
/// One run after the other, with the failures of one stream of random numbers.
class FailureSimulation {
 public:
  FailureSimulation(const FailureModel& model, std::uint64_t seed) : model_(model), seed_(seed) {}

  void run(Goodput& total) {
    clock_ = done_ = saved_ = 0;
    repairs_.clear();
    fails_ = next_failure();
    most_ = total.failures + kMostOfRun;
    while (done_ < model_.work_seconds && total.failures < most_) advance(total);
    total.seconds += clock_;
    lasting_ += saved_;
  }
  /// Seconds of training that were saved, of all runs.
  double lasting() const { return lasting_; }

 private:
  int lost() const { return static_cast<int>(repairs_.size()); }
  int training_nodes() const { return std::min(model_.nodes, model_.nodes + model_.spares - lost()); }
  /// Progress of a second: the global batch stays, and fewer nodes share it.
  double speed() const { return static_cast<double>(training_nodes()) / model_.nodes; }

  double next_failure() {
    if (model_.node_mean_seconds <= 0) return std::numeric_limits<double>::infinity();
    const double uniform = Philox::uniform(Philox::block(seed_, 0, draws_++)[0]);
    return clock_ - std::log(1 - uniform) * model_.node_mean_seconds / (training_nodes());
  }

  void mend() {
    while (!repairs_.empty() && repairs_.front() <= clock_) repairs_.pop_front();
  }

  /// Trains until the next save and saves, or until the next failure or repair.
  void advance(Goodput& total) {
    mend();
    const double left = std::min(model_.work_seconds, saved_ + model_.interval_seconds) - done_;
    const double repaired = repairs_.empty() ? fails_ : repairs_.front();
    const double end = clock_ + left / speed(), next = std::min({end, fails_, repaired});
    const double trained = (next - clock_) * speed();
    total.fewer_nodes_seconds += (next - clock_) - trained;
    done_ += trained;
    clock_ = next;
    if (next == fails_) return fail(total);
    if (next == repaired) return;
    done_ = std::min(model_.work_seconds, saved_ + model_.interval_seconds);
    save(total);
  }

  /// A failure in the meantime takes the save with it. The end of the run is saved anyhow.
  void save(Goodput& total) {
    const double end = clock_ + (done_ < model_.work_seconds ? model_.stall_seconds : 0);
    total.saving_seconds += std::min(end, fails_) - clock_;
    if (fails_ < end) {
      clock_ = fails_;
      return fail(total);
    }
    clock_ = end;
    saved_ = done_;
  }

  /// Another failure before the end of a recovery begins the next one.
  void fail(Goodput& total) {
    total.lost_seconds += done_ - saved_;
    done_ = saved_;
    for (bool is_done = false; !is_done;) {
      ++total.failures;
      repairs_.push_back(clock_ + model_.repair_seconds);
      const double end = clock_ + recovery_seconds() + model_.restore_seconds;
      fails_ = next_failure();
      is_done = fails_ >= end || total.failures >= most_;
      const double until = std::min(end, fails_);
      total.recovering_seconds += until - clock_;
      clock_ = until;
    }
  }

  double recovery_seconds() {
    if (model_.nodes + model_.spares - lost() < std::max(1, model_.least_nodes)) {
      repairs_.clear();  // the next job gets other nodes
      return model_.recovery.requeue;
    }
    if (model_.relaunches) return model_.recovery.relaunch;
    return lost() <= model_.spares ? model_.recovery.spare : model_.recovery.fewer;
  }

  static constexpr double kMostOfRun = 20000;  ///< failures: then the run is given up; its saved training counts

  const FailureModel& model_;
  double lasting_ = 0, most_ = 0;  ///< seconds of training that last; failures that end the run
  std::uint64_t seed_, draws_ = 0;
  double clock_ = 0, done_ = 0, saved_ = 0;  ///< time of this run; training done and saved in it
  double fails_ = 0;                         ///< time of the next failure of a node
  std::deque<double> repairs_;               ///< times at which lost nodes are back, ascending
};
}  // namespace

Goodput simulate_failures(const FailureModel& model, std::uint64_t seed) {
  constexpr int kMostRuns = 1000;
  constexpr double kEnough = 2000;
  FailureSimulation simulation(model, seed);
  Goodput total;
  int runs = 0;
  do {
    simulation.run(total);
    ++runs;
  } while (model.node_mean_seconds > 0 && runs < kMostRuns && total.failures < kEnough);
  for (double* each : {&total.seconds, &total.failures, &total.lost_seconds, &total.saving_seconds,
                       &total.recovering_seconds, &total.fewer_nodes_seconds})
    *each /= runs;
  const double lasting = simulation.lasting() / runs;
  total.share = total.seconds > 0 ? lasting / total.seconds : 1;
  if (lasting < model.work_seconds) total.seconds = model.work_seconds / total.share;  // the run may have been given up
  return total;
}

}  // namespace distdl::forecast
