// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <fmt/format.h>

#include <distdl/app/watch/timeline.hpp>
#include <distdl/base/exit_codes.hpp>

namespace distdl::app {
namespace {
struct Told {
  Colour tone = Colour::none;
  std::string text = {};
};

std::string with_cause(const std::string& text, const std::string& more) {
  return more.empty() ? text : text + ": " + more;
}

std::string ranks_on(int ranks, const std::string& nodes = {}) {
  const auto text = fmt::format("{} {}", ranks, ranks == 1 ? "rank" : "ranks");
  return nodes.empty() ? text : text + " on " + nodes;
}

/// Kinds of everyday work.
template <class Kind>
Told told(const Kind& /*record*/) {
  return {};
}

Told told(const records::Submitted& event) {
  return {.text = fmt::format("job {} submitted", event.job)};
}

Told told(const records::JobStarted& event) {
  const auto job = event.job.empty() ? std::string("\"distdl run\"") : "job " + event.job;
  const auto restart = event.restart > 0 ? fmt::format(", restart {}", event.restart) : std::string();
  return {.text = fmt::format("{} begins{}{}", job, event.host.empty() ? "" : " on " + event.host, restart)};
}

Told told(const records::NodesChecked& event) {
  if (event.cause.empty()) return {};
  return {Colour::yellow, with_cause("nodes left out", event.cause)};
}

Told told(const records::LaunchBegan& event) {
  return {.text = "starts " + ranks_on(event.ranks, event.nodes)};
}

Told told(const records::Started& event) {
  if (!event.interrupted) return {Colour::green, "training begins, " + ranks_on(event.world_size)};
  const auto again = event.steps_repeated > 0 ? fmt::format(", {} steps again", event.steps_repeated) : std::string();
  return {Colour::green, fmt::format("training goes on from step {}, {}{}", event.resumed_from.value_or(Step(0)),
                                     ranks_on(event.world_size), again)};
}

Told told(const records::GenerationFailed& event) {
  const auto kind = event.kind.empty() ? std::string("failure") : event.kind;
  return {Colour::red, with_cause(kind, event.cause.empty() ? event.node : event.cause)};
}

Told told(const records::GenerationBegan& event) {
  return {.text = "starts " + ranks_on(event.ranks, event.nodes) + " in place of those before"};
}

Told told(const records::LaunchEnded& event) {
  if (is_planned(event)) return {};  // a row "stopped" or "finished" tells it
  return {Colour::red, with_cause(fmt::format("the ranks have ended, code {}", event.code.value_or(0)), event.cause)};
}

Told told(const records::NodeLost&) {
  return {Colour::red, "a node was lost"};
}

Told told(const records::NodeAtRisk& event) {
  return {Colour::yellow, fmt::format("{} may fail soon: {}", event.host, event.cause)};
}

Told told(const records::AlertRaised& event) {
  return {Colour::red, with_cause("alert: " + event.when, event.cause)};
}

Told told(const records::AlertCleared& event) {
  return {Colour::green, fmt::format("the alert \"{}\" no longer holds", event.when)};
}

Told told(const records::Corrupted& event) {
  return {Colour::red, with_cause(fmt::format("wrong bits at {}", records::step_text(event.step)), event.reason)};
}

Told told(const records::SaveFailed& event) {
  return {Colour::yellow,
          with_cause(fmt::format("the save of {} failed", records::step_text(event.step)), event.reason)};
}

Told told(const records::SnapshotFailed& event) {
  return {Colour::yellow,
          with_cause(fmt::format("the snapshot of {} failed", records::step_text(event.step)), event.reason)};
}

Told told(const records::SharesKnown& event) {
  if (!event.moved) return {};
  if (!event.went_back.empty())
    return {.text = with_cause(fmt::format("microbatches move back after {}", records::step_text(event.step)),
                               event.went_back)};
  return {.text = fmt::format("microbatches move between ranks after {}", records::step_text(event.step))};
}

Told told(const records::RangesKnown& event) {
  if (!event.moved) return {};
  const char* const back = event.went_back.empty() ? "" : " back";
  return {.text = with_cause(
              fmt::format("parameters move{} between servers after {}", back, records::step_text(event.step)),
              event.went_back)};
}

Told told(const records::Stopped& event) {
  return {Colour::yellow,
          with_cause(fmt::format("saved and stopped at step {}", event.step.value_or(Step(0))), event.reason)};
}

Told told(const records::Finished& event) {
  return {Colour::green, with_cause(fmt::format("finished at step {}", event.step.value_or(Step(0))), event.early)};
}

Told told(const records::Requeued& event) {
  return {Colour::yellow, fmt::format("job {} is back in the queue", event.job)};
}

Told told(const records::CancelRequested& event) {
  return {Colour::yellow, with_cause("a user asked for the end of the run", event.reason)};
}

Told told(const records::RequeueRequested& event) {
  return {Colour::yellow, with_cause("a user asked for a requeue", event.reason)};
}

Told told(const records::RunFailed& event) {
  return {Colour::red, with_cause(fmt::format("the run gives up, code {}", event.code.value_or(0)), event.cause)};
}

Told told(const records::JobEnded& event) {
  const int code = event.code.value_or(0);
  if (code == static_cast<int>(ExitCode::ok) || code == static_cast<int>(ExitCode::requeue)) return {};
  const ExitCodeEntry* entry = entry_of(code);
  return {Colour::red, with_cause(fmt::format("the job ends with {}", code), entry ? std::string(entry->meaning) : "")};
}
}  // namespace

std::optional<TimelineEntry> timeline_entry_of(const records::Row& row) {
  auto [tone, text] = std::visit([](const auto& record) { return told(record); }, row.record);
  if (text.empty()) return std::nullopt;
  return TimelineEntry{row.time, tone, std::move(text)};
}

}  // namespace distdl::app
