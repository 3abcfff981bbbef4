// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/observe/export/exporters.hpp>
#include <distdl/observe/tensorboard/event_records.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>
#include <distdl/observe/tensorboard/parameter_histograms.hpp>
#include <distdl/observe/tensorboard/sample_records.hpp>

namespace distdl::observe {
std::filesystem::path export_tensorboard(const History& history, const std::filesystem::path& place, bool replace) {
  auto folder = place / (history.name + "-" + history.id);
  UnfinishedFolder files(folder, replace);
  const EventPlace begin{history.begin, history.rows.begin()->first}, end{history.end, history.rows.rbegin()->first};
  std::string records = version_record(begin.time) + job_records(begin, history.job);
  if (history.samples > 0) records += sample_records(begin, history.job, history.samples);
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
