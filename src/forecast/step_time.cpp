// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <distdl/base/philox.hpp>
#include <distdl/forecast/step_time.hpp>

namespace distdl::forecast {
namespace {
/// Of mean 1, lognormal, a function of its place alone.
double deviation_of(std::uint64_t seed, std::uint64_t step, std::uint64_t rank, double spread) {
  if (spread <= 0) return 1;
  const auto bits = Philox::block(seed, step, rank);
  const double radius = std::sqrt(-2 * std::log(1 - double{Philox::uniform(bits[0])}));
  const double normal = radius * std::cos(2 * std::numbers::pi * Philox::uniform(bits[1]));
  return std::exp(spread * normal - spread * spread / 2);
}

/// Seconds of the backward pass until the gradients from `place` on are final.
double final_after(const RankWork& work, std::size_t place) {
  for (const auto& each : work.finals)
    if (each.place <= place) return each.seconds;
  return work.backward;
}

class StepSimulation {
 public:
  StepSimulation(const RankWork& work, const StepPlan& plan, std::uint64_t seed)
      : work_(work), plan_(plan), seed_(seed), pass_(work.forward + work.backward) {
    released_.reserve(plan.buckets.size());
    for (const auto& bucket : plan.buckets)
      released_.push_back(plan.buckets.size() == 1 ? work.backward : final_after(work, bucket.first));
  }

  void step(std::uint64_t number, StepTime& total) {
    std::vector<double> done(plan_.microbatches.size()), speed(done.size());
    double slowest = 0;
    for (std::size_t r = 0; r < done.size(); ++r) {
      speed[r] = deviation_of(seed_, number, r, work_.spread);
      done[r] = own_seconds(r, speed[r]);
      slowest = std::max(slowest, done[r]);
      total.compute += done[r] / static_cast<double>(done.size());
    }
    const auto ends = sums(done, speed);
    const double sum = std::accumulate(plan_.sum_seconds.begin(), plan_.sum_seconds.end(), 0.0);
    slowest += stolen_;
    const double updated = update(slowest, ends);
    total.sum += sum;
    total.waited += std::max(0.0, ends.back() - slowest);
    total.seconds += updated + plan_.gather_seconds + work_.load + work_.rest;
  }

 private:
  double own_seconds(std::size_t rank, double speed) const {
    const int count = plan_.microbatches[rank];
    return speed * (count * pass_ + std::max(0, count - 1) * work_.add);
  }

  /// When the sum of each bucket ends. What a sum takes from the processor delays what the rank computes after.
  std::vector<double> sums(const std::vector<double>& done, const std::vector<double>& speed) {
    std::vector<double> ends;
    double end = 0;
    stolen_ = 0;
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      double last = 0, slowest = 0;
      for (std::size_t r = 0; r < done.size(); ++r) {
        last = std::max(last, done[r] - speed[r] * (work_.backward - released_[b]));
        slowest = std::max(slowest, done[r]);
      }
      const double begin = std::max(end, last + stolen_);
      if (begin < slowest + stolen_ && !plan_.stolen_seconds.empty()) stolen_ += plan_.stolen_seconds[b];
      ends.push_back(end = begin + plan_.sum_seconds[b]);
    }
    return ends;
  }

  double update(double clock, const std::vector<double>& ends) const {
    const double all = plan_.updated_share * work_.update;
    if (!plan_.in_parts) return std::max(clock, ends.back()) + all;
    for (std::size_t b = 0; b < ends.size(); ++b)
      clock = std::max(clock, ends[b]) +
              all * static_cast<double>(plan_.buckets[b].count()) / static_cast<double>(plan_.floats);
    return clock;
  }

  const RankWork& work_;
  const StepPlan& plan_;
  std::uint64_t seed_;
  std::vector<double> released_;  ///< seconds of the backward pass until each bucket is final
  double pass_;
  double stolen_ = 0;  ///< from the processor by sums, so far in this step
};
}  // namespace

StepTime simulate_steps(const RankWork& work, const StepPlan& plan, int steps, std::uint64_t seed) {
  StepSimulation simulation(work, plan, seed);
  StepTime total;
  for (int i = 0; i < steps; ++i) simulation.step(static_cast<std::uint64_t>(i), total);
  for (double* each : {&total.seconds, &total.compute, &total.sum, &total.waited}) *each /= steps;
  return total;
}

}  // namespace distdl::forecast
