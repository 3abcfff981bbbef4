// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/train/events.hpp>

namespace distdl::observe {

/// Shows the progress of a run: a progress bar on a terminal, else a line from time to time.
class Progress final : public train::Observer {
 public:
  /// `out` is usually stderr. The form depends on whether it is a terminal. Output that cannot be written is dropped.
  explicit Progress(std::FILE* out);

  void on(const train::Started& event) override;
  void on(const train::StepDone& event) override;
  void on(const train::Evaluated& event) override;
  void on(const train::CheckpointSaved& event) override;
  void on(const train::SnapshotFailed& event) override;
  void on(const train::SaveSkipped& event) override;
  void on(const train::SaveFailed& event) override;
  void on(const train::Stopped& event) override;
  void on(const train::Finished& event) override;

 private:
  /// Prints a permanent line, above the bar if there is one.
  void line(const std::string& text);
  void draw(const train::StepDone& event);
  void show(const std::string& text);
  /// Clears the bar before the log writes a line.
  void clear();

  std::FILE* out_;
  bool terminal_;
  Step total_;
  Clock::time_point next_draw_{};
};

/// Passes each event to several observers in turn.
class Observers final : public train::Observer {
 public:
  explicit Observers(std::vector<train::Observer*> observers) : observers_(std::move(observers)) {}
  void on(const train::Started& e) override { tell(e); }
  void on(const train::StepDone& e) override { tell(e); }
  void on(const train::CompressionChosen& e) override { tell(e); }
  void on(const train::SharesKnown& e) override { tell(e); }
  void on(const train::Evaluated& e) override { tell(e); }
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
