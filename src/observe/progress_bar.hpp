// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/console.hpp>
#include <distdl/train/events.hpp>

namespace distdl::observe {

/// Shows the progress of a run: a progress bar on a terminal, else a line from time to time; nothing if quiet. What the
/// log says about failures takes the place of the bar.
class Progress final : public train::Observer {
 public:
  using Now = Clock::time_point (*)();
  /// `out` is usually stderr. The form depends on whether it is a terminal. Output that cannot be written is dropped.
  /// `now`: replaced by tests.
  explicit Progress(
      std::FILE* out, Now now = [] { return Clock::now(); });

  void on(const train::Started& event) override;
  void on(const train::StepDone& event) override;
  void on(const train::Evaluated& event) override;
  void on(const train::CheckpointSaved& event) override;
  void on(const train::Stopped& event) override;
  void on(const train::Finished& event) override;

 private:
  /// Prints a line that stays, above the bar if there is one.
  void line(const std::string& text);
  /// Whether a line of a kind is due where there is no terminal, at `next` at the earliest. A log of days needs no
  /// thousands of lines: the pauses grow with the time of the run.
  bool is_due(Clock::time_point& next) const;
  void draw(const train::StepDone& event);
  /// Since these ranks began to train.
  double seconds() const { return std::chrono::duration<double>(now_() - begin_).count(); }
  /// How long these ranks have trained, and will train.
  std::string times() const;

  Console console_;
  bool is_quiet_;
  Step first_, step_, total_;
  Step first_told_;           ///< the first step of this start, or the last one of its first round
  double first_seconds_ = 0;  ///< what it took, with what does not come again
  Now now_;
  Clock::time_point begin_;
  Clock::time_point next_draw_{}, next_evaluation_{}, next_checkpoint_{};
  int checkpoints_ = 0;  ///< since the last line about one
};

/// Passes each event to several observers in turn.
class Observers final : public train::Observer {
 public:
  explicit Observers(std::vector<train::Observer*> observers) : observers_(std::move(observers)) {}
  void on(const train::RolesKnown& e) override { tell(e); }
  void on(const train::Started& e) override { tell(e); }
  void on(const train::StepDone& e) override { tell(e); }
  void on(const train::ResourcesUsed& e) override { tell(e); }
  void on(const train::CompressionChosen& e) override { tell(e); }
  void on(const train::SharesKnown& e) override { tell(e); }
  void on(const train::RangesKnown& e) override { tell(e); }
  void on(const train::RanksDisturbed& e) override { tell(e); }
  void on(const train::Evaluated& e) override { tell(e); }
  void on(const train::SaveBegins& e) override { tell(e); }
  void on(const train::CheckpointSaved& e) override { tell(e); }
  void on(const train::SnapshotKept& e) override { tell(e); }
  void on(const train::SnapshotFailed& e) override { tell(e); }
  void on(const train::SaveSkipped& e) override { tell(e); }
  void on(const train::SaveFailed& e) override { tell(e); }
  void on(const train::Audited& e) override { tell(e); }
  void on(const train::Corrupted& e) override { tell(e); }
  void on(const train::DeadlineKnown& e) override { tell(e); }
  void on(const train::Stopped& e) override { tell(e); }
  void on(const train::Finished& e) override { tell(e); }

 private:
  template <class Event>
  void tell(const Event& event) {
    for (auto* observer : observers_) observer->on(event);
  }
  std::vector<train::Observer*> observers_;
};

}  // namespace distdl::observe
