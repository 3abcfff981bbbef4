// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>

#include <distdl/base/philox.hpp>
#include <distdl/forecast/step_time.hpp>

namespace distdl::forecast {
namespace {
/// Returns a lognormal number of mean 1, a function of its place alone.
double deviation_of(std::uint64_t seed, std::uint64_t step, std::uint64_t rank, double spread) {
  if (spread <= 0) return 1;
  const auto bits = Philox::block(seed, step, rank);
  const double radius = std::sqrt(-2 * std::log(1 - double{Philox::uniform(bits[0])}));
  const double normal = radius * std::cos(2 * std::numbers::pi * Philox::uniform(bits[1]));
  return std::exp(spread * normal - spread * spread / 2);
}

/// The thread that sums buckets and gathers parameters, one after the other in the order of parallel::GradientSum. Its
/// jobs begin as they are released.
class SumThread {
 public:
  /// `computing`: time until which ranks compute.
  SumThread(const StepPlan& plan, double computing)
      : plan_(plan), lag_(std::min(plan.lag, plan.buckets.size() - 1)), computing_(computing) {}

  void release_sum(double time) { sums_.push_back(time); }
  void release_gather(double time) { gathers_.push_back(time); }
  /// Returns when the sum of a bucket ends; nothing: it depends on jobs that are not released.
  std::optional<double> end_of_sum(std::size_t bucket) {
    work();
    return bucket < ends_.size() ? std::optional(ends_[bucket]) : std::nullopt;
  }
  /// Returns the end of all released jobs.
  double end() {
    work();
    return free_;
  }

 private:
  void work() {
    for (;;) {
      const bool gathers =
          !plan_.gather_seconds.empty() && ends_.size() >= std::min(plan_.buckets.size(), gathered_ + lag_ + 1);
      const auto& released = gathers ? gathers_ : sums_;
      const std::size_t next = gathers ? gathered_ : ends_.size();
      if (next >= released.size()) return;
      free_ = std::max(free_, released[next]);
      const bool naps = !gathers && !plan_.nap_seconds.empty() && free_ < computing_;
      free_ += (gathers ? plan_.gather_seconds : plan_.sum_seconds)[next] + (naps ? plan_.nap_seconds[next] : 0);
      if (gathers)
        ++gathered_;
      else
        ends_.push_back(free_);
    }
  }

  const StepPlan& plan_;
  std::size_t lag_, gathered_ = 0;
  double computing_;
  std::vector<double> sums_, gathers_, ends_;  ///< when jobs are released; when sums end
  double free_ = 0;
};

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
    SumThread thread(plan_, slowest);
    updated_ = 0;
    clock_ = slowest + backward_pass(done, speed, slowest, thread);
    waited_ = 0;
    end_step(thread);
    total.sum += std::accumulate(plan_.sum_seconds.begin(), plan_.sum_seconds.end(), 0.0);
    total.waited += waited_;
    total.seconds += clock_ + work_.load + work_.rest;
  }

 private:
  bool gathers() const { return !plan_.gather_seconds.empty(); }

  double own_seconds(std::size_t rank, double speed) const {
    const int count = plan_.microbatches[rank];
    return speed * (count * pass_ + std::max(0, count - 1) * work_.add);
  }

  /// Releases the sums of the buckets. Updates summed buckets in between, if they are then gathered. Returns the delay
  /// of the slowest rank's computation by updates, and by the processor time of sums.
  double backward_pass(const std::vector<double>& done, const std::vector<double>& speed, double slowest,
                       SumThread& thread) {
    double delay = 0;
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      double last = 0;
      for (std::size_t r = 0; r < done.size(); ++r)
        last = std::max(last, done[r] - speed[r] * (work_.backward - released_[b]));
      clock_ = last + delay;
      const double free = thread.end();
      thread.release_sum(clock_);
      if (std::max(free, clock_) < slowest + delay && !plan_.stolen_seconds.empty()) delay += plan_.stolen_seconds[b];
      while (gathers() && plan_.in_parts && updated_ < b) {
        const auto end = thread.end_of_sum(updated_);
        if (!end || *end > clock_) break;
        delay += seconds_of_update();
        update(thread);
      }
    }
    return delay;
  }

  /// Does the work that is left after the backward pass.
  void end_step(SumThread& thread) {
    const std::size_t count = plan_.buckets.size();
    if (!plan_.in_parts) wait_until(thread.end_of_sum(count - 1).value_or(clock_));
    while (updated_ < count) {
      wait_until(thread.end_of_sum(updated_).value_or(clock_));
      update(thread);
    }
    if (gathers()) wait_until(thread.end());
  }

  void wait_until(double time) {
    waited_ += std::max(0.0, time - clock_);
    clock_ = std::max(clock_, time);
  }

  double seconds_of_update() const {
    return plan_.updated_share * work_.update * static_cast<double>(plan_.buckets[updated_].count()) /
           static_cast<double>(plan_.floats);
  }

  /// Updates the next bucket.
  void update(SumThread& thread) {
    clock_ += seconds_of_update();
    ++updated_;
    if (gathers()) thread.release_gather(clock_);
  }

  const RankWork& work_;
  const StepPlan& plan_;
  std::uint64_t seed_;
  std::vector<double> released_;  ///< seconds of the backward pass until each bucket is final
  double pass_;
  double clock_ = 0, waited_ = 0;  ///< times of the slowest rank in this step
  std::size_t updated_ = 0;        ///< buckets in this step
};
}  // namespace

double final_after(const RankWork& work, std::size_t place) {
  for (const auto& each : work.finals)
    if (each.place <= place) return each.seconds;
  return work.backward;
}

RankWork with_gathers(const RankWork& work, const std::vector<parallel::Bucket>& buckets,
                      const std::vector<double>& gather_seconds) {
  RankWork slower = work;
  double clock = 0, gathered = gather_seconds.back();
  const auto compute = [&](double seconds, const double* next) {
    clock = std::max(clock, gathered);
    gathered = clock + (next == nullptr ? 0 : *next);
    clock += seconds;
  };
  const auto seconds_of = [&](std::size_t b) {
    return final_after(work, buckets[b].first) - (b == 0 ? 0 : final_after(work, buckets[b - 1].first));
  };
  for (std::size_t b = buckets.size(); b-- > 0;)
    compute(seconds_of(b) / work.backward * work.forward, b == 0 ? nullptr : &gather_seconds[b - 1]);
  slower.forward = clock;
  clock = gathered = 0;  // the parameters that the forward pass read last are there
  slower.finals.clear();
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    compute(seconds_of(b), b + 1 == buckets.size() ? nullptr : &gather_seconds[b + 1]);
    slower.finals.push_back({buckets[b].first, clock});
  }
  slower.backward = clock;
  return slower;
}

StepTime simulate_steps(const RankWork& work, const StepPlan& plan, int steps, std::uint64_t seed) {
  StepSimulation simulation(work, plan, seed);
  StepTime total;
  for (int i = 0; i < steps; ++i) simulation.step(static_cast<std::uint64_t>(i), total);
  for (double* each : {&total.seconds, &total.compute, &total.sum, &total.waited}) *each /= steps;
  return total;
}

}  // namespace distdl::forecast
