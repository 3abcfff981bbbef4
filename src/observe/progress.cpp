// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/observe/progress.hpp>

namespace distdl::observe {
namespace {
using namespace std::chrono_literals;

std::string bar(double fraction, int width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int eighths = static_cast<int>(fraction * width * 8);
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  for (int cells = eighths / 8 + (eighths % 8 ? 1 : 0); cells < width; ++cells) text += "·";
  return text;
}
}  // namespace

Progress::Progress(std::FILE* out) : out_(out), terminal_(::isatty(::fileno(out)) == 1) {}

void Progress::line(const std::string& text) {
  show(fmt::format("{}{}\n", terminal_ ? "\r\033[K" : "", text));
}

void Progress::show(const std::string& text) {
  write_console(::fileno(out_), text);
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
  double fraction = static_cast<double>(e.step.value) / static_cast<double>(total_.value);
  if (terminal_)
    show(fmt::format("\r\033[K\033[36m{}\033[0m {:3.0f}%  step {}/{}  loss {:.4f}  {:.0f} samples/s", bar(fraction, 30),
                     fraction * 100, e.step, total_, e.loss, e.samples_per_s));
  else
    show(fmt::format("step {}/{}  epoch {:.2f}  loss {:.4f}  accuracy {:.2f}%  {:.0f} samples/s\n", e.step, total_,
                     e.epoch, e.loss, e.accuracy * 100, e.samples_per_s));
}

void Progress::on(const train::StepDone& event) {
  auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + (terminal_ ? 100ms : 2000ms);
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

void Progress::on(const train::SnapshotFailed&) {
  clear();
}

void Progress::on(const train::SaveSkipped&) {
  clear();
}

void Progress::on(const train::SaveFailed&) {
  clear();
}

void Progress::clear() {
  if (terminal_) show("\r\033[K");  // the log says the rest: give it a line of its own
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
