// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/observe/export/event_records.hpp>
#include <distdl/observe/export/exporters.hpp>
#include <distdl/observe/export/job_values.hpp>
#include <distdl/observe/export/parameter_histograms.hpp>
#include <distdl/observe/export/sample_records.hpp>

namespace distdl::observe {
namespace {
std::string training_set(const History& history) {
  const auto keys = history.keys();
  const auto found = keys.find("data.train");
  require<StorageError>(found != keys.end(),
                        "\"{}\" has no job.toml that names a data set: an older distdl made the run",
                        history.folder.string());
  const auto value = json_of(found->second);
  return value.is_string() ? value.get<std::string>() : found->second;
}
}  // namespace

std::filesystem::path export_tensorboard(const History& history, const std::filesystem::path& place, bool replace) {
  const auto folder = place / (history.name + "-" + history.id);
  UnfinishedFolder files(folder, replace);
  const EventPlace begin{history.begin, history.rows.begin()->first}, end{history.end, history.rows.rbegin()->first};
  std::string records = version_record(begin.time) + job_records(begin, history.job);
  if (history.samples > 0) records += sample_records(begin, training_set(history), history.samples);
  for (const auto& [step, row] : history.rows) records += scalars_record({row.time, step}, row.scalars);
  for (const auto& checkpoint : history.checkpoints) try {
      records += parameter_histograms(checkpoint);
    } catch (const StorageError&) {
      if (std::filesystem::exists(checkpoint.folder)) throw;  // else the run, which goes on, has removed it
    }
  if (history.phase == Phase::finished) records += end_record(end);
  files.write(event_file_name(0), records);
  files.finish();
  return folder;
}

}  // namespace distdl::observe
