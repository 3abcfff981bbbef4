// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/observe/event_follower.hpp>
#include <distdl/observe/export/history.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::observe {
namespace {
using RowJson = nlohmann::ordered_json;

/// Nothing if it is missing, no number, negative, or more than a double counts.
std::optional<std::int64_t> count_in(const RowJson& row, const char* key) {
  constexpr double kMost = 1e15;
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return value >= 0 && value <= kMost ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
}

double time_in(const RowJson& row) {
  constexpr double kMost = 1e11;
  const auto found = row.find("time");
  if (found == row.end() || !found->is_number()) return 0;
  return std::clamp(found->get<double>(), 0.0, kMost);
}

void for_each_json_row(const std::filesystem::path& file, const std::function<void(const RowJson&)>& visit) {
  LineFollower(file).poll([&](std::string_view line) {
    if (line.size() > kLongestLine) return;
    const auto row = RowJson::parse(line, nullptr, false);
    if (row.is_object()) visit(row);
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
  void take(const RowJson& row) {
    const RecordKind* kind = kind_of_row(row);
    const auto step = count_in(row, "step");
    if (!kind || !step || !counted_.counts(count_in(row, "start").value_or(0), *step)) return;
    if (auto scalars = scalars_of(*kind, row); !scalars.empty())
      rows_[{*step, kind}] = {time_in(row), std::move(scalars)};
  }
  std::multimap<std::int64_t, History::Row> all() && {
    std::multimap<std::int64_t, History::Row> all;
    for (auto& [key, row] : rows_) all.emplace_hint(all.end(), key.first, std::move(row));
    return all;
  }

 private:
  const CountedSteps& counted_;
  std::map<std::pair<std::int64_t, const RecordKind*>, History::Row> rows_;
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
  for_each_json_row(folder / "journal.jsonl", [&](const RowJson& row) {
    const auto start = count_in(row, "start");
    if (start && kind_of_row(row) == find_kind("started"))
      counted.started(*start, count_in(row, "resumed_from").value_or(0));
  });
  RowsByKind rows(counted);
  for (const char* file : {"metrics.jsonl", "journal.jsonl"})
    for_each_json_row(folder / file, [&](const RowJson& row) { rows.take(row); });
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
