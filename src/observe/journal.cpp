// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {

Journal::Journal(const std::filesystem::path& run_folder, TornLine torn)
    : writer_(resolved(run_folder) / "journal.jsonl", torn) {}

void Journal::append(records::Record record, double time) {
  writer_.append(text_of(records::Row{std::move(record), time > 0 ? time : seconds_since_1970()}));
}

std::vector<records::Row> read_journal(const std::filesystem::path& run_folder) {
  std::vector<records::Row> rows;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) { rows.push_back(row); });
  return rows;
}

std::optional<LaunchFailure> last_failure(const std::vector<records::Row>& journal) {
  // The one that tells more has the greater number.
  const auto weight = [](const records::Row& row, const std::string& code) {
    if (code.empty()) return 0;
    const int most = row.is<records::RankFailed>()         ? 4
                     : row.is<records::GenerationFailed>() ? 3
                     : row.is<records::LaunchEnded>()      ? 2
                                                           : 0;
    return code == "peer_lost" ? std::min(most, 1) : most;
  };
  std::optional<LaunchFailure> failure;
  int heaviest = 0;
  for (const records::Row& row : journal) {
    if (row.is<records::LaunchBegan, records::GenerationBegan, records::JobStarted>()) {
      failure.reset();
      heaviest = 0;
    }
    const std::string code = cause_code_of(row.record);
    if (weight(row, code) <= heaviest) continue;
    heaviest = weight(row, code);
    failure = {cause_of(row.record), code};
  }
  return failure;
}

std::optional<std::string> present_launch(const std::filesystem::path& run_folder) {
  std::optional<std::string> id;
  for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
    if (const auto* const launch = row.as<records::LaunchBegan>()) id = launch->id;
    if (row.is<records::JobStarted, records::LaunchEnded>()) id.reset();
  });
  return id;
}

bool has_met_poison(const std::vector<records::Row>& journal) {
  bool met = false;
  for (const records::Row& row : journal) {
    if (row.is<records::LaunchBegan, records::GenerationBegan>()) met = false;
    if (const auto* const failure = row.as<records::GenerationFailed>()) met = failure->kind == "poison step";
  }
  return met;
}

bool chain_has_ended(const std::vector<records::Row>& journal, const std::string& chain, const std::string& job) {
  bool has_ended = false;
  for (const records::Row& row : journal) {
    if (const auto* const submitted = row.as<records::Submitted>(); submitted && submitted->job == job)
      has_ended = false;
    if (const auto* const end = row.as<records::JobEnded>(); end && end->is_final && end->chain == chain)
      has_ended = true;
  }
  return has_ended;
}

std::vector<std::string> links_after(const std::vector<records::Row>& journal, const std::string& chain,
                                     const std::string& job) {
  std::vector<std::string> links;
  bool follows = false;
  for (const records::Row& row : journal) {
    if (const auto* const submitted = row.as<records::Submitted>(); submitted && submitted->chain == chain) {
      if (follows) links.push_back(submitted->job);
      follows = follows || submitted->job == job;
    }
    if (const auto* const started = row.as<records::JobStarted>()) std::erase(links, started->job);
  }
  return links;
}

const records::JobEnded* last_end_of_chain(const std::vector<records::Row>& journal, const std::string& chain) {
  for (auto row = journal.rbegin(); row != journal.rend(); ++row)
    if (const auto* const end = row->as<records::JobEnded>(); end && end->chain == chain) return end;
  return nullptr;
}

}  // namespace distdl::observe
