// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <distdl/base/work_progress.hpp>
#include <distdl/observe/progress_bar.hpp>

namespace distdl::observe {
namespace {
using namespace std::chrono_literals;
}  // namespace

Progress::Progress(std::FILE* out, Now now)
    : console_(::fileno(out)), is_quiet_(verbosity() == Verbosity::quiet), now_(now), begin_(now_()) {}

void Progress::line(const std::string& text) {
  if (!is_quiet_) console_.line(text);
}

void Progress::on(const records::Record& record) {
  std::visit([this](const auto& each) { show(each); }, record);
}

void Progress::show(const records::Started& event) {
  total_ = event.total_steps.value_or(Step(0));
  step_ = first_ = event.resumed_from.value_or(Step(0));
  begin_ = now_();
  auto where = fmt::format("{} {} on {}", event.world_size, event.world_size == 1 ? "rank" : "ranks", event.backend);
  if (event.resumed_from && *event.resumed_from >= total_)
    line(fmt::format("step {} is there already, from {}, and the job ends at step {}: there is nothing left to train",
                     *event.resumed_from, event.resumed_source, total_));
  else if (event.resumed_from)
    line(fmt::format("resuming from step {} of {}, from {}, {}", *event.resumed_from, total_, event.resumed_source,
                     where));
  else
    line(fmt::format("starting: {} steps of {} samples, {}", total_, event.global_batch, where));
}

std::string Progress::times() const {
  const double took_all = seconds();
  const auto left = static_cast<double>(total_.value - step_.value);
  auto done = static_cast<double>(step_.value - first_.value);
  double took = took_all;
  if (const auto first = static_cast<double>(first_told_.value - first_.value); done > first) {
    done -= first;
    took -= first_seconds_;
  }
  const double rest = done > 0 ? took / done * left : 0;
  return times_text(took_all / std::max(took_all + rest, std::numeric_limits<double>::min()), took_all);
}

void Progress::draw(const records::StepDone& e) {
  const auto step = fmt::format("step {}/{}", e.step, total_), loss = fmt::format("loss {:.4f}", e.loss.value_or(0)),
             speed = fmt::format("{:.0f} samples/s", e.samples_per_s.value_or(0));
  if (!console_.is_terminal())
    return line(fmt::format("{}  epoch {:.2f}  {}{}  {}  {}", step, e.epoch, loss,
                            e.accuracy ? fmt::format("  accuracy {:.2f}%", *e.accuracy * 100) : "", speed, times()));
  // The bar keeps its width while the figures beside it change.
  constexpr int kFigures = 66, kNarrowest = 10, kWidest = 30;  // columns of usual figures, and of the bar
  const int room = console_.width() - 2;                       // a space, and the last column
  const int bar_width = std::clamp(room - kFigures, kNarrowest, kWidest);
  const double fraction = static_cast<double>(e.step.value) / static_cast<double>(total_.value);
  auto text = fmt::format("{:3.0f}%  {}  {}", fraction * 100, step, times());
  for (const auto& more : {loss, speed})
    if (bar_width + static_cast<int>(text.size() + more.size()) + 2 <= room) text += "  " + more;
  const auto bar = console_.bar(fraction, bar_width);
  console_.status(fmt::format("{} {}", console_.coloured(bar, Colour::cyan), text));
}

void Progress::show(const records::StepDone& event) {
  if (event.is_followed) return;  // the steps of a round took their time together
  if (step_ == first_) {
    first_told_ = event.step;
    first_seconds_ = seconds();
  }
  step_ = event.step;
  if (!is_quiet_ && is_due(next_draw_)) draw(event);
}

bool Progress::is_due(Clock::time_point& next) const {
  const auto now = now_();
  if (now < next) return false;
  constexpr double kLeast = 2, kMost = 600, kShare = 0.05;  // seconds, and of the time
  const auto pause = std::chrono::duration<double>(std::clamp(kShare * seconds(), kLeast, kMost));
  next = now + (console_.is_terminal() ? 100ms : std::chrono::duration_cast<Milliseconds>(pause));
  return true;
}

void Progress::show(const records::Evaluated& event) {
  if (!console_.is_terminal() && !is_due(next_evaluation_)) return;
  line(fmt::format("step {}  epoch {:.2f}  validation {}loss {:.4f}", event.step, event.epoch,
                   event.accuracy ? fmt::format("accuracy {:.2f}%  ", *event.accuracy * 100) : "",
                   event.loss.value_or(0)));
}

void Progress::show(const records::CheckpointSaved& event) {
  ++checkpoints_;
  if (!console_.is_terminal() && !is_due(next_checkpoint_)) return;
  const auto more = checkpoints_ > 1 ? fmt::format("; {} more since the last such line", checkpoints_ - 1) : "";
  line(fmt::format("checkpoint at step {}: {:.1f} MiB in {:.1f} ms; training waited {:.1f} ms{}",
                   event.step.value_or(step_), static_cast<double>(event.bytes) / (1 << 20), event.seconds * 1e3,
                   event.stall_seconds.value_or(0) * 1e3, more));
  checkpoints_ = 0;
}

void Progress::show(const records::Stopped& event) {
  line(fmt::format("stopped at step {} ({}); everything is saved", event.step.value_or(step_), event.reason));
}

void Progress::show(const records::Finished& event) {
  const Step step = event.step.value_or(step_);
  if (event.loss)
    line(fmt::format("finished: {} steps, validation {}loss {:.4f}", step,
                     event.accuracy ? fmt::format("accuracy {:.2f}%, ", *event.accuracy * 100) : "", *event.loss));
  else
    line(fmt::format("finished: {} steps; there is no validation data to evaluate on", step));
}

}  // namespace distdl::observe
