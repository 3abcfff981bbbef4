// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/observe/event_follower.hpp>
#include <distdl/observe/export/history.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {
namespace {
void visit_rows(const std::filesystem::path& file, const std::function<void(const records::Row&)>& visit) {
  LineFollower(file).poll([&](std::string_view line) {
    if (const auto row = records::parse_row(line)) visit(*row);
  });
}

/// Which steps of a start count: up to those that every later one has resumed from.
class CountedSteps {
 public:
  void started(std::int64_t start, std::int64_t resumed_from) { begins_[start] = resumed_from; }
  bool counts(std::int64_t start, std::int64_t step) const {
    return std::all_of(begins_.upper_bound(start), begins_.end(),
                       [step](const auto& later) { return step <= later.second; });
  }

 private:
  std::map<std::int64_t, std::int64_t> begins_;  ///< by the number of the start
};

/// Takes the place of an earlier row of the kind and the step: after a resume an evaluation is repeated.
class RowsByKind {
 public:
  explicit RowsByKind(const CountedSteps& counted) : counted_(counted) {}
  void take(const records::Row& row) {
    const auto step = step_of(row.record);
    if (!step || !counted_.counts(row.start.value_or(0), step->value)) return;
    if (auto scalars = scalars_of(row.record); !scalars.empty())
      rows_[{step->value, row.record.index()}] = {row.time, std::move(scalars)};
  }
  std::multimap<std::int64_t, History::Row> all() && {
    std::multimap<std::int64_t, History::Row> all;
    for (auto& [key, row] : rows_) all.emplace_hint(all.end(), key.first, std::move(row));
    return all;
  }

 private:
  const CountedSteps& counted_;
  std::map<std::pair<std::int64_t, std::size_t>, History::Row> rows_;  ///< by the step and the kind
};

std::string id_of(const std::filesystem::path& folder) {
  constexpr std::size_t kDigits = 12;
  if (const auto identity = find_identity(folder)) return identity->id;
  const std::string path = folder.string();
  Sha256 sum;
  sum.update(std::as_bytes(std::span(path)));
  return sum.hex().substr(0, kDigits);
}

bool is_key(std::string_view name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string_view::npos &&
         name.find("..") == std::string_view::npos && !name.starts_with('.') &&
         name.find('.') != std::string_view::npos;
}
}  // namespace

std::map<std::string, std::string> History::keys() const {
  auto keys = keys_of_job(job);
  std::erase_if(keys, [](const auto& entry) { return !is_key(entry.first); });
  return keys;
}

History read_history(const std::filesystem::path& run_folder) {
  const auto folder = std::filesystem::canonical(run_folder);
  History history{.folder = folder, .name = folder.filename().string(), .id = id_of(folder)};
  history.job = kept_job(folder).value_or("");
  CountedSteps counted;
  visit_rows(folder / "journal.jsonl", [&](const records::Row& row) {
    const auto* const started = row.as<records::Started>();
    if (started && row.start) counted.started(*row.start, started->resumed_from.value_or(Step(0)).value);
  });
  RowsByKind rows(counted);
  for (const char* file : {"metrics.jsonl", "journal.jsonl"})
    visit_rows(folder / file, [&](const records::Row& row) { rows.take(row); });
  history.rows = std::move(rows).all();
  if (history.rows.empty())
    throw StorageError(fmt::format("\"{}\" tells of no step yet: there is nothing to export", folder.string()),
                       ExitCode::incomplete);
  const RunSummary summary = summarize_run(folder);
  history.phase = summary.phase;
  history.begin = summary.first_time;
  history.end = summary.last_time;
  return history;
}

}  // namespace distdl::observe
