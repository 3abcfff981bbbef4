// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/records/causes.hpp>

namespace distdl::observe {
namespace {
using Row = nlohmann::ordered_json;

Row row_of(const char* event) {
  return {{"event", event}, {"time", seconds_since_1970()}};
}

void add_text(Row& row, const char* key, const std::string& text) {
  if (!text.empty()) row[key] = text;
}

std::vector<int> numbers_of(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const Rank rank : ranks) numbers.push_back(rank.value);
  return numbers;
}

/// Names of hosts and files need not be UTF-8.
std::string text_of(const Row& row) {
  return row.dump(-1, ' ', false, Row::error_handler_t::replace);
}
}  // namespace

Journal::Journal(const std::filesystem::path& run_folder, TornLine torn)
    : writer_(resolved(run_folder) / "journal.jsonl", torn) {}

void Journal::append(const Submitted& event) {
  Row row = row_of("submitted");
  row["job"] = event.job;
  add_text(row, "chain", event.chain);
  if (event.links > 1) {
    row["link"] = event.link;
    row["links"] = event.links;
  }
  writer_.append(text_of(row));
}

void Journal::append(const JobStarted& event) {
  Row row = row_of("job_started");
  add_text(row, "job", event.job);
  row["restart"] = event.restart;
  add_text(row, "host", event.host);
  add_text(row, "chain", event.chain);
  row["ranks"] = event.ranks;
  row["node_count"] = event.nodes;
  if (event.submit_time > 0) row["submit_time"] = event.submit_time;
  add_text(row, "distdl", event.distdl);
  add_text(row, "processor", event.processor);
  writer_.append(text_of(row));
}

void Journal::append(const NodesChecked& event) {
  Row row = row_of("preflight");
  row["node_count"] = event.nodes;
  row["seconds"] = event.seconds;
  if (!event.excluded.empty()) row["excluded"] = event.excluded;
  add_text(row, "cause", event.cause);
  add_text(row, "unmeasured", event.unmeasured);
  writer_.append(text_of(row));
}

void Journal::append(const LaunchBegan& event) {
  Row row = row_of("launch");
  row["ranks"] = event.ranks;
  add_text(row, "nodes", event.nodes);
  add_text(row, "id", event.id);
  writer_.append(text_of(row));
}

void Journal::append(const LaunchEnded& event) {
  Row row = row_of("launch_ended");
  row["code"] = event.code;
  add_text(row, "cause", event.cause);
  add_text(row, "cause_code", std::string(records::cause_of_exit(event.code)));
  if (event.asked_to_stop) row["asked_to_stop"] = true;
  writer_.append(text_of(row));
}

void Journal::append(const GenerationFailed& event) {
  Row row = row_of("failure");
  if (event.found > 0) row["time"] = event.found;
  row["generation"] = event.generation;
  add_text(row, "cause", event.cause);
  row["cause_code"] = records::cause_of_kind(event.kind);
  add_text(row, "kind", event.kind);
  add_text(row, "node", event.node);
  if (event.rank) row["rank"] = *event.rank;
  writer_.append(text_of(row));
}

void Journal::append(const GenerationBegan& event) {
  Row row = row_of("generation");
  row["generation"] = event.generation;
  add_text(row, "cause", event.cause);
  row["ranks"] = event.ranks;
  add_text(row, "nodes", event.nodes);
  writer_.append(text_of(row));
}

void Journal::append(const ProductChosen& event) {
  Row row = row_of("product");
  row["ranks"] = event.ranks;
  row["product"] = event.product;
  row["reason"] = event.reason;
  if (!event.servers.empty()) {
    row["servers"] = numbers_of(event.servers);
    row["workers"] = numbers_of(event.workers);
    row["hosts"] = event.hosts;
  }
  writer_.append(text_of(row));
}

void Journal::append(const NodeLost&) {
  writer_.append(text_of(row_of("node_lost")));
}

void Journal::append(const NodeAtRisk& event) {
  Row row = row_of("node_at_risk");
  row["host"] = event.host;
  row["cause"] = event.sign;
  row["risk"] = event.risk;
  writer_.append(text_of(row));
}

void Journal::append(const AlertRaised& event) {
  Row row = row_of("alert");
  row["rule"] = event.rule;
  row["when"] = event.when;
  row["cause"] = event.cause;
  if (event.step) row["step"] = *event.step;
  writer_.append(text_of(row));
}

void Journal::append(const AlertCleared& event) {
  Row row = row_of("alert_cleared");
  row["rule"] = event.rule;
  row["when"] = event.when;
  writer_.append(text_of(row));
}

void Journal::append(const Requeued& event) {
  Row row = row_of("requeued");
  row["job"] = event.job;
  writer_.append(text_of(row));
}

void Journal::append(const RunFailed& event) {
  Row row = row_of("failed");
  add_text(row, "job", event.job);
  if (event.step) row["step"] = event.step->value;
  row["code"] = event.code;
  add_text(row, "cause", event.cause);
  add_text(row, "cause_code", event.cause_code);
  writer_.append(text_of(row));
}

void Journal::append(const JobEnded& event) {
  Row row = row_of("job_ended");
  add_text(row, "job", event.job);
  add_text(row, "chain", event.chain);
  row["code"] = event.code;
  row["final"] = event.is_final;
  row["progressed"] = event.has_progressed;
  if (event.is_refused) row["refused"] = true;
  writer_.append(text_of(row));
}

void Journal::append(const CancelRequested& event) {
  Row row = row_of("cancel_requested");
  add_text(row, "job", event.job);
  add_text(row, "reason", event.reason);
  writer_.append(text_of(row));
}

std::vector<Record> read_journal(const std::filesystem::path& run_folder) {
  std::vector<Record> rows;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) { rows.push_back(row); });
  return rows;
}

std::optional<LaunchFailure> last_failure(const std::vector<Record>& journal) {
  // The one that tells more has the greater number.
  const auto weight = [](const Record& row, const std::string& code) {
    if (code.empty()) return 0;
    const int most = row.event == "error" ? 4 : row.event == "failure" ? 3 : row.event == "launch_ended" ? 2 : 0;
    return code == "peer_lost" ? std::min(most, 1) : most;
  };
  std::optional<LaunchFailure> failure;
  int heaviest = 0;
  for (const Record& row : journal) {
    if (row.event == "launch" || row.event == "generation" || row.event == "job_started") {
      failure.reset();
      heaviest = 0;
    }
    const std::string code = cause_code_of(row);
    if (weight(row, code) <= heaviest) continue;
    heaviest = weight(row, code);
    failure = {row.cause, code};
  }
  return failure;
}

std::string cause_code_of(const Record& row) {
  if (!row.cause_code.empty()) return row.cause_code;
  if (row.event == "stopped") return std::string(records::cause_of_stop(row.reason));
  if (row.event == "failure") return std::string(records::cause_of_kind(row.kind));
  return row.code ? std::string(records::cause_of_exit(static_cast<int>(*row.code))) : std::string();
}

std::optional<std::string> present_launch(const std::filesystem::path& run_folder) {
  std::optional<std::string> id;
  for_each_record(run_folder / "journal.jsonl", [&](const Record& row) {
    if (row.event == "launch") id = row.id;
    if (row.event == "job_started" || row.event == "launch_ended") id.reset();
  });
  return id;
}

bool has_met_poison(const std::vector<Record>& journal) {
  bool met = false;
  for (const Record& row : journal) {
    if (row.event == "launch" || row.event == "generation") met = false;
    if (row.event == "failure") met = row.kind == "poison step";
  }
  return met;
}

bool chain_has_ended(const std::vector<Record>& journal, const std::string& chain, const std::string& job) {
  bool has_ended = false;
  for (const Record& row : journal) {
    if (row.event == "submitted" && row.job == job) has_ended = false;
    if (row.event == "job_ended" && row.is_final && row.chain == chain) has_ended = true;
  }
  return has_ended;
}

std::vector<std::string> links_after(const std::vector<Record>& journal, const std::string& chain,
                                     const std::string& job) {
  std::vector<std::string> links;
  bool follows = false;
  for (const Record& row : journal) {
    if (row.event == "submitted" && row.chain == chain && follows) links.push_back(row.job);
    if (row.event == "submitted" && row.chain == chain && row.job == job) follows = true;
    if (row.event == "job_started") std::erase(links, row.job);
  }
  return links;
}

const Record* last_end_of_chain(const std::vector<Record>& journal, const std::string& chain) {
  for (auto row = journal.rbegin(); row != journal.rend(); ++row)
    if (row->event == "job_ended" && row->chain == chain) return &*row;
  return nullptr;
}

}  // namespace distdl::observe
