// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include <fmt/format.h>

#include <distdl/app/watch/timeline.hpp>
#include <distdl/base/exit_codes.hpp>

namespace distdl::app {
namespace {
using observe::Record;

struct Told {
  Colour tone = Colour::none;
  std::string text = {};
};

std::string with_cause(const std::string& text, const std::string& more) {
  return more.empty() ? text : text + ": " + more;
}

std::string ranks_on(const Record& event) {
  const auto ranks = fmt::format("{} {}", event.ranks, event.ranks == 1 ? "rank" : "ranks");
  return event.nodes.empty() ? ranks : ranks + " on " + event.nodes;
}

std::int64_t step_of(const Record& event) {
  return event.step.value_or(0);
}

Told submitted(const Record& event) {
  return {.text = fmt::format("job {} submitted", event.job)};
}

Told job_started(const Record& event) {
  const auto job = event.job.empty() ? std::string("\"distdl run\"") : "job " + event.job;
  const auto restart = event.restart > 0 ? fmt::format(", restart {}", event.restart) : std::string();
  return {.text = fmt::format("{} begins{}{}", job, event.host.empty() ? "" : " on " + event.host, restart)};
}

Told preflight(const Record& event) {
  if (event.cause.empty()) return {};
  return {Colour::yellow, with_cause("nodes left out", event.cause)};
}

Told launched(const Record& event) {
  return {.text = "starts " + ranks_on(event)};
}

Told started(const Record& event) {
  if (!event.interrupted) return {Colour::green, "training begins, " + ranks_on(event)};
  const auto again = event.steps_repeated > 0 ? fmt::format(", {} steps again", event.steps_repeated) : std::string();
  return {Colour::green,
          fmt::format("training goes on from step {}, {}{}", event.resumed_from, ranks_on(event), again)};
}

Told failed(const Record& event) {
  const auto kind = event.kind.empty() ? std::string("failure") : event.kind;
  return {Colour::red, with_cause(kind, event.cause.empty() ? event.node : event.cause)};
}

Told began_generation(const Record& event) {
  return {.text = "starts " + ranks_on(event) + " in place of those before"};
}

Told launch_ended(const Record& event) {
  constexpr int kRequeue = static_cast<int>(ExitCode::requeue);
  const bool on_purpose = event.was_asked || event.code == 0 || event.code == kRequeue;
  if (on_purpose) return {};  // a row "stopped" or "finished" tells it
  return {Colour::red, with_cause(fmt::format("the ranks have ended, code {}", event.code.value_or(0)), event.cause)};
}

Told lost_node(const Record& event) {
  return {Colour::red, with_cause("a node was lost", event.cause)};
}

Told at_risk(const Record& event) {
  return {Colour::yellow, fmt::format("{} may fail soon: {}", event.host, event.cause)};
}

Told alerted(const Record& event) {
  return {Colour::red, with_cause("alert: " + event.when, event.cause)};
}

Told alert_cleared(const Record& event) {
  return {Colour::green, fmt::format("the alert \"{}\" no longer holds", event.when)};
}

Told corrupted(const Record& event) {
  return {Colour::red, with_cause(fmt::format("wrong bits at step {}", step_of(event)), event.reason)};
}

Told save_failed(const Record& event) {
  return {Colour::yellow, with_cause(fmt::format("the save of step {} failed", step_of(event)), event.reason)};
}

Told snapshot_failed(const Record& event) {
  return {Colour::yellow, with_cause(fmt::format("the snapshot of step {} failed", step_of(event)), event.reason)};
}

Told moved(const Record& event) {
  if (!event.has_moved) return {};
  if (!event.went_back.empty())
    return {.text = with_cause(fmt::format("microbatches move back after step {}", step_of(event)), event.went_back)};
  return {.text = fmt::format("microbatches move between ranks after step {}", step_of(event))};
}

Told moved_ranges(const Record& event) {
  if (!event.has_moved) return {};
  const char* const back = event.went_back.empty() ? "" : " back";
  return {.text = with_cause(fmt::format("parameters move{} between servers after step {}", back, step_of(event)),
                             event.went_back)};
}

Told stopped(const Record& event) {
  return {Colour::yellow, with_cause(fmt::format("saved and stopped at step {}", step_of(event)), event.reason)};
}

Told finished(const Record& event) {
  return {Colour::green, with_cause(fmt::format("finished at step {}", step_of(event)), event.reason)};
}

Told requeued(const Record& event) {
  return {Colour::yellow, fmt::format("job {} is back in the queue", event.job)};
}

Told asked_to_end(const Record& event) {
  return {Colour::yellow, with_cause("a user asked for the end of the run", event.reason)};
}

Told gave_up(const Record& event) {
  return {Colour::red, with_cause(fmt::format("the run gives up, code {}", event.code.value_or(0)), event.cause)};
}

Told job_ended(const Record& event) {
  const auto code = static_cast<int>(event.code.value_or(0));
  if (code == static_cast<int>(ExitCode::ok) || code == static_cast<int>(ExitCode::requeue)) return {};
  const ExitCodeEntry* entry = entry_of(code);
  return {Colour::red, with_cause(fmt::format("the job ends with {}", code), entry ? std::string(entry->meaning) : "")};
}
}  // namespace

std::optional<TimelineEntry> timeline_entry_of(const Record& event) {
  struct Row {
    std::string_view event;
    Told (*tell)(const Record& event);
  };
  static constexpr std::array<Row, 23> kRows{{{"submitted", submitted},
                                              {"job_started", job_started},
                                              {"preflight", preflight},
                                              {"launch", launched},
                                              {"started", started},
                                              {"failure", failed},
                                              {"generation", began_generation},
                                              {"launch_ended", launch_ended},
                                              {"node_lost", lost_node},
                                              {"node_at_risk", at_risk},
                                              {"alert", alerted},
                                              {"alert_cleared", alert_cleared},
                                              {"corrupted", corrupted},
                                              {"save_failed", save_failed},
                                              {"snapshot_failed", snapshot_failed},
                                              {"shares", moved},
                                              {"ranges", moved_ranges},
                                              {"stopped", stopped},
                                              {"finished", finished},
                                              {"requeued", requeued},
                                              {"cancel_requested", asked_to_end},
                                              {"failed", gave_up},
                                              {"job_ended", job_ended}}};
  for (const auto& [name, tell] : kRows) {
    if (name != event.event) continue;
    auto [tone, text] = tell(event);
    if (text.empty()) return std::nullopt;
    return TimelineEntry{event.time, tone, std::move(text)};
  }
  return std::nullopt;
}

}  // namespace distdl::app
