// SPDX-License-Identifier: Apache-2.0
#include <distdl/observe/export/event_records.hpp>
#include <distdl/observe/export/exporters.hpp>

namespace distdl::observe {

std::filesystem::path export_tensorboard(const History& history, const std::filesystem::path& place, bool replace) {
  const auto folder = place / (history.name + "-" + history.id);
  UnfinishedFolder files(folder, replace);
  const EventPlace begin{history.begin, history.rows.begin()->first}, end{history.end, history.rows.rbegin()->first};
  std::string records = version_record(begin.time) + job_records(begin, history.job);
  for (const auto& [step, row] : history.rows) records += scalars_record({row.time, step}, row.scalars);
  if (history.phase == Phase::finished) records += end_record(end);
  files.write(event_file_name(0), records);
  files.finish();
  return folder;
}

}  // namespace distdl::observe
