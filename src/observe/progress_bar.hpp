// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>

#include <distdl/base/clock.hpp>
#include <distdl/base/console.hpp>
#include <distdl/records/observer.hpp>

namespace distdl::observe {

/// Shows the progress of a run: a progress bar on a terminal, else a line from time to time; nothing if quiet. What the
/// log says about failures takes the place of the bar.
class Progress final : public records::Observer {
 public:
  using Now = Clock::time_point (*)();
  /// `out` is usually stderr. The form depends on whether it is a terminal. Output that cannot be written is dropped.
  /// `now`: replaced by tests.
  explicit Progress(
      std::FILE* out, Now now = [] { return Clock::now(); });

  void on(const records::Record& record) override;

 private:
  template <class Kind>
  void show(const Kind& /*record*/) {}
  void show(const records::Started& event);
  void show(const records::StepDone& event);
  void show(const records::Evaluated& event);
  void show(const records::CheckpointSaved& event);
  void show(const records::Stopped& event);
  void show(const records::Finished& event);
  /// Prints a line that stays, above the bar if there is one.
  void line(const std::string& text);
  /// True if a line of a kind is due where there is no terminal, at `next` at the earliest. A log of days needs no
  /// thousands of lines: the pauses grow with the time of the run.
  bool is_due(Clock::time_point& next) const;
  void draw(const records::StepDone& event);
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

}  // namespace distdl::observe
