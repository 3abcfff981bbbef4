// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include <distdl/base/wire.hpp>
#include <distdl/observe/export/exporters.hpp>
#include <distdl/observe/export/run_log.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>
#include <distdl/version.hpp>

namespace distdl::observe {
namespace {
// Field numbers of a Record (only those that are used):
constexpr int kRecordNumber = 1, kRecordHistory = 2, kRecordSummary = 3, kRecordRun = 17, kRecordExit = 18,
              kRecordHeader = 21;
// Field numbers of its contents: HeaderRecord and VersionInfo, RunRecord, RunExitRecord; then ConfigRecord,
// SummaryRecord and HistoryRecord.
constexpr int kHeaderVersion = 1, kVersionProducer = 1, kVersionConsumer = 2;
constexpr int kRunId = 1, kRunProject = 3, kRunConfig = 4, kRunName = 8, kRunStart = 17;
constexpr int kExitCode = 1, kExitRuntime = 2;
constexpr int kItems = 1, kItemKey = 1, kItemJson = 16, kHistoryStep = 2, kStepNumber = 1;
constexpr int kSeconds = 1, kNanoseconds = 2;  // of google.protobuf.Timestamp

void add_item(WireMessage& items, std::string_view key, const nlohmann::json& value) {
  WireMessage item;
  item.text(kItemKey, key).text(kItemJson, value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  items.message(kItems, item);
}

/// Records of a file, with ascending numbers.
class WandbRecords {
 public:
  void add(int field, const WireMessage& what) {
    WireMessage record;
    record.number(kRecordNumber, ++number_).message(field, what);
    log_.append(record.bytes());
  }
  const std::string& bytes() const { return log_.bytes(); }

 private:
  std::uint64_t number_ = 0;
  RunLog log_;
};

WireMessage header() {
  WireMessage version, header;
  version.text(kVersionProducer, fmt::format("distdl {}", distdl::version())).text(kVersionConsumer, "0.0.1");
  return header.message(kHeaderVersion, version);
}

WireMessage run_record(const History& history) {
  constexpr double kNanosecondsPerSecond = 1e9;
  WireMessage start, config, run;
  const auto seconds = static_cast<std::uint64_t>(history.begin);
  start.number(kSeconds, seconds)
      .number(kNanoseconds,
              static_cast<std::uint64_t>((history.begin - static_cast<double>(seconds)) * kNanosecondsPerSecond));
  for (const auto& [key, value] : history.keys()) add_item(config, key, json_of(value));
  return run.text(kRunId, history.id)
      .text(kRunProject, "distdl")
      .message(kRunConfig, config)
      .text(kRunName, history.name)
      .message(kRunStart, start);
}

/// One record for each step, because W&B passes over a step that comes again.
void add_history(WandbRecords& records, const History& history) {
  std::map<std::string_view, double> newest;
  for (auto row = history.rows.begin(); row != history.rows.end();) {
    const std::int64_t step = row->first;
    double time = row->second.time;
    WireMessage values, number;
    for (; row != history.rows.end() && row->first == step; ++row) {
      for (const Scalar& scalar : row->second.scalars) {
        add_item(values, scalar.tag, scalar.value);
        newest[scalar.tag] = scalar.value;
      }
      time = std::max(time, row->second.time);
    }
    add_item(values, "_step", step);
    add_item(values, "_timestamp", time);
    add_item(values, "_runtime", std::max(0.0, time - history.begin));
    values.message(kHistoryStep, number.number(kStepNumber, static_cast<std::uint64_t>(step)));
    records.add(kRecordHistory, values);
  }
  WireMessage summary;
  for (const auto& [tag, value] : newest) add_item(summary, tag, value);
  records.add(kRecordSummary, summary);
}
}  // namespace

std::filesystem::path export_wandb(const History& history, const std::filesystem::path& place, bool replace) {
  const auto time = fmt::gmtime(static_cast<std::time_t>(history.begin));
  auto folder = place / fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}", time, history.id);
  UnfinishedFolder files(folder, replace);
  WandbRecords records;
  records.add(kRecordHeader, header());
  records.add(kRecordRun, run_record(history));
  add_history(records, history);
  if (history.phase == Phase::finished || history.phase == Phase::ended) {
    WireMessage exit;
    exit.number(kExitCode, history.phase == Phase::finished ? 0 : 1)
        .number(kExitRuntime, static_cast<std::uint64_t>(std::max(0.0, history.end - history.begin)));
    records.add(kRecordExit, exit);
  }
  files.write(fmt::format("run-{}.wandb", history.id), records.bytes());
  files.finish();
  return folder;
}

}  // namespace distdl::observe
