// SPDX-License-Identifier: Apache-2.0
// Preemptions and time limits in simulated time: a scripted scheduler ends the jobs of a run in every way that Slurm
// has, the real rule (EndOfJob) decides when the run stops, and the real table of exit codes decides whether it goes
// on.
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <distdl/base/exit_codes.hpp>
#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::train {
namespace {
constexpr int kSchedules = 1000, kMaxJobs = 200;
constexpr double kMargin = 2, kKillWait = 30, kForever = 1e9;

enum class Ending { time_limit, warning, preempt_requeue, preempt_cancel, scancel, requeue, suspend, none };

EndOfJob::Time at(double seconds) {
  return EndOfJob::Time() +
         std::chrono::duration_cast<EndOfJob::Time::duration>(std::chrono::duration<double>(seconds));
}

/// What the scheduler does to one job. Seconds count from the job's start.
struct Script {
  Ending ending = Ending::none;
  slurm::JobLimits limits;
  double signal = kForever;  ///< a request to stop arrives
  double kill = kForever;    ///< SIGKILL
  double suspended_at = kForever, suspended_for = 0;
};

struct Pace {
  double step, evaluation, save;
  int saves_every, evaluates_every;
};

/// How one job ended.
struct Ended {
  ExitCode code = ExitCode::peer_lost;  ///< peer_lost stands for SIGKILL
  double when = 0;
};

class SimulatedRun {
 public:
  SimulatedRun(unsigned seed, int steps) : random_(seed), steps_(steps) {
    pace_ = {draw(0.05, 4), draw(1, 30), draw(0.5, 40), static_cast<int>(draw(20, 60)), static_cast<int>(draw(30, 90))};
  }

  const Pace& pace() const { return pace_; }
  int committed() const { return committed_; }
  bool has_measured_a_save() const { return before_.save > 0; }
  double draw(double low, double high) { return std::uniform_real_distribution(low, high)(random_); }

  /// One job: from its start to its end by itself, or by SIGKILL.
  Ended job(const Script& script) {
    script_ = script;
    now_ = 0, save_ends_ = kForever, step_ = committed_;
    EndOfJob end(script.limits, kMargin, before_);
    end.set_steps_per_evaluation(10);
    const Ended ended = [&]() -> Ended {
      while (step_ < steps_) {
        const bool stops =
            script_.signal <= now_ || end.poll(at(now_), next());  // goes round with the step's gradients
        if (!spend(end, pace_.step * draw(0.9, 1.1), &EndOfJob::step_took)) return {};
        ++step_;
        if (stops && step_ < steps_) return save(end, ExitCode::requeue);
        if (!periodic(end)) return {};
      }
      return save(end, ExitCode::ok);
    }();
    before_ = end.times();
    return ended;
  }

 private:
  NextStep next() const {
    return {(step_ + 1) % pace_.evaluates_every == 0, save_ends_ < kForever || (step_ + 1) % pace_.saves_every == 0};
  }

  /// Returns false if SIGKILL comes before.
  bool spend(EndOfJob& end, double seconds, void (EndOfJob::*took)(double)) {
    if (now_ <= script_.suspended_at && script_.suspended_at < now_ + seconds) {
      end.set_disturbed(true);
      seconds += script_.suspended_for;
      if (script_.limits.end) end.set_end(*script_.limits.end + (at(script_.suspended_for) - at(0)));
      (end.*took)(seconds);
      end.set_disturbed(false);
    } else {
      (end.*took)(seconds);
    }
    now_ += seconds;
    if (save_ends_ <= std::min(now_, script_.kill)) commit(end);
    return now_ < script_.kill;
  }

  void commit(EndOfJob& end) {
    committed_ = save_step_;
    end.save_took(save_seconds_);
    save_ends_ = kForever;
  }

  void begin_save() {
    save_step_ = step_;
    save_seconds_ = pace_.save * draw(0.8, 1.2);
    save_ends_ = now_ + save_seconds_;
  }

  bool periodic(EndOfJob& end) {
    if (step_ % pace_.saves_every == 0 && save_ends_ == kForever) begin_save();
    if (step_ % pace_.evaluates_every != 0) return true;
    if (end.must_save(at(now_), save_ends_ < kForever)) return true;  // given up
    return spend(end, pace_.evaluation * draw(0.8, 1.2), &EndOfJob::evaluation_took);
  }

  Ended save(EndOfJob& end, ExitCode code) {
    for (int saves = 0; saves < 2; ++saves) {
      if (save_ends_ < kForever) {
        now_ = std::max(now_, save_ends_);
        if (now_ >= script_.kill) return {};
        commit(end);
      }
      if (committed_ == step_) break;
      begin_save();
    }
    return {code, now_};
  }

  std::mt19937 random_;
  int steps_, step_ = 0, committed_ = 0, save_step_ = 0;
  double now_ = 0, save_ends_ = kForever, save_seconds_ = 0;
  Pace pace_{};
  Script script_;
  records::MeasuredTimes before_;
};

Script script_of(SimulatedRun& run, std::mt19937& random) {
  Script script;
  script.ending = static_cast<Ending>(std::uniform_int_distribution(0, 7)(random));
  const double limit = run.draw(300, 3000), when = run.draw(0, 400);
  const auto grace = std::chrono::seconds(static_cast<int>(run.draw(0, 120)));
  const auto after = [&](double delay) { script.signal = when, script.kill = when + delay; };
  script.limits.end = at(limit);
  script.kill = limit + kKillWait;
  switch (script.ending) {
    case Ending::time_limit:
      break;
    case Ending::warning:
      script.signal = limit - 150;
      break;
    case Ending::preempt_requeue:
    case Ending::preempt_cancel:
      script.limits.grace = grace;
      script.limits.preemption =
          script.ending == Ending::preempt_requeue ? slurm::PreemptMode::requeue : slurm::PreemptMode::cancel;
      after(static_cast<double>(grace.count()));
      break;
    case Ending::scancel:
    case Ending::requeue:
      after(kKillWait);
      break;
    case Ending::suspend:
      script.suspended_at = when;
      script.suspended_for = run.draw(1, 5000);
      script.kill += script.suspended_for;
      break;
    case Ending::none:
      script.limits.end.reset(), script.kill = kForever;
      break;
  }
  return script;
}

/// Whether this end of a job must not cost a step. Two things are no promise: an end before a save was ever measured,
/// and a grace period that the run itself has called too short.
bool promises_all_steps(const Script& script, const records::MeasuredTimes& times, bool measured) {
  if (!measured) return false;
  const double at_most = times.step * 1.25 * 2 + times.save * 1.5 * 2 + times.evaluation * 1.5;
  switch (script.ending) {
    case Ending::preempt_requeue:
    case Ending::preempt_cancel:
    case Ending::scancel:
    case Ending::requeue:
      return script.kill - script.signal > at_most;
    default:
      return true;
  }
}

TEST(PreemptionSimulation, EveryEndLeavesACheckpointAndTheRunEndsAsAsked) {
  int jobs = 0, stopped = 0, killed = 0, cancelled = 0;
  for (unsigned seed = 0; seed < kSchedules; ++seed) {
    constexpr int kSteps = 600;
    SimulatedRun run(seed, kSteps);
    std::mt19937 random(seed + 77);
    bool finished = false;
    for (int number = 0; number < kMaxJobs && !finished; ++number, ++jobs) {
      const Script script = script_of(run, random);
      const int before = run.committed();
      const bool measured = run.has_measured_a_save();
      const records::MeasuredTimes times{run.pace().step, run.pace().evaluation, run.pace().save};
      const Ended ended = run.job(script);
      const auto about = fmt::format("seed {}, job {}, ending {}", seed, number, static_cast<int>(script.ending));
      ASSERT_GE(run.committed(), before) << about << ": a checkpoint was lost";
      if (ended.code == ExitCode::peer_lost) {
        ++killed;
        ASSERT_FALSE(promises_all_steps(script, times, measured)) << about << ": killed before it had saved";
        continue;  // Slurm starts the job again
      }
      const RestartDecision decision = entry_of(static_cast<int>(ended.code))->restart;
      finished = decision == RestartDecision::finished;
      ASSERT_EQ(finished, run.committed() == kSteps) << about;
      if (finished) continue;
      ++stopped;
      ASSERT_EQ(decision, RestartDecision::resume_later) << about;
      ASSERT_TRUE(script.ending != Ending::none) << about << ": stopped though nobody asked";
      ASSERT_LT(ended.when, script.kill) << about;
      if (measured && (script.ending == Ending::time_limit || script.ending == Ending::suspend)) {
        ASSERT_LE(ended.when, script.kill - kKillWait) << about << ": stopped after the end of the job";
      }
      if (script.ending == Ending::scancel) {
        ++cancelled;  // the user starts it again
        ASSERT_GT(run.committed(), 0) << about;
      }
    }
    ASSERT_TRUE(finished) << "seed " << seed << " made no progress in " << kMaxJobs << " jobs";
  }
  EXPECT_GE(stopped + killed, kSchedules) << "too few ends to prove anything";
  EXPECT_GT(killed, 0) << "no script was so hard that a job was killed";
  EXPECT_GT(cancelled, 0);
  RecordProperty("jobs", jobs);
  RecordProperty("stopped", stopped);
  RecordProperty("killed", killed);
}

}  // namespace
}  // namespace distdl::train
