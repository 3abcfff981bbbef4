// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/observe/progress.hpp>

namespace distdl::observe {
namespace {
using namespace std::chrono_literals;
}  // namespace

Progress::Progress(std::FILE* out) : console_(::fileno(out)), is_quiet_(verbosity() == Verbosity::quiet) {}

void Progress::line(const std::string& text) {
  if (!is_quiet_) console_.line(text);
}

void Progress::on(const train::Started& event) {
  total_ = event.total_steps;
  auto where = fmt::format("{} {} on {}", event.world_size, event.world_size == 1 ? "rank" : "ranks", event.backend);
  if (event.resumed_from)
    line(fmt::format("resuming from step {} of {}, from {}, {}", *event.resumed_from, total_, event.resumed_source,
                     where));
  else
    line(fmt::format("starting: {} steps of {} samples, {}", total_, event.global_batch, where));
}

void Progress::draw(const train::StepDone& e) {
  if (!console_.is_terminal())
    return line(fmt::format("step {}/{}  epoch {:.2f}  loss {:.4f}  accuracy {:.2f}%  {:.0f} samples/s", e.step, total_,
                            e.epoch, e.loss, e.accuracy * 100, e.samples_per_s));
  constexpr int kFigures = 60, kNarrowest = 10, kWidest = 30;  // columns of the text beside the bar, and of the bar
  const double fraction = static_cast<double>(e.step.value) / static_cast<double>(total_.value);
  const auto bar = console_.bar(fraction, std::clamp(console_.width() - kFigures, kNarrowest, kWidest));
  console_.status(fmt::format("{} {:3.0f}%  step {}/{}  loss {:.4f}  {:.0f} samples/s",
                              console_.coloured(bar, Colour::cyan), fraction * 100, e.step, total_, e.loss,
                              e.samples_per_s));
}

void Progress::on(const train::StepDone& event) {
  const auto now = Clock::now();
  if (is_quiet_ || now < next_draw_) return;
  next_draw_ = now + (console_.is_terminal() ? 100ms : 2000ms);
  draw(event);
}

void Progress::on(const train::Evaluated& event) {
  line(fmt::format("step {}  epoch {:.2f}  validation accuracy {:.2f}%  loss {:.4f}", event.step, event.epoch,
                   event.accuracy * 100, event.loss));
}

void Progress::on(const train::CheckpointSaved& event) {
  line(fmt::format("checkpoint at step {}: {:.1f} MB in {:.0f} ms, of which training waited {:.1f} ms", event.step,
                   static_cast<double>(event.bytes) / 1e6, event.seconds * 1e3, event.stall_seconds * 1e3));
}

void Progress::on(const train::Stopped& event) {
  line(fmt::format("stopped at step {} ({}); everything is saved", event.step, event.reason));
}

void Progress::on(const train::Finished& event) {
  if (event.loss && event.accuracy)
    line(fmt::format("finished: {} steps, validation accuracy {:.2f}%, loss {:.4f}", event.step, *event.accuracy * 100,
                     *event.loss));
  else
    line(fmt::format("finished: {} steps; there is no validation data to evaluate on", event.step));
}

}  // namespace distdl::observe
