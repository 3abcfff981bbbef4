// SPDX-License-Identifier: Apache-2.0
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/rank_failure_watch.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {

RankFailureWatch::RankFailureWatch(const std::filesystem::path& run_folder)
    : journal_(resolved(run_folder) / "journal.jsonl") {}

bool RankFailureWatch::has_failed() {
  const auto take = [this](std::string_view line) {
    const auto row = records::parse_row(line);
    if (row && row->is<records::LaunchBegan, records::RankFailed>()) has_failed_ = row->is<records::RankFailed>();
  };
  if (!journal_.poll(take)) {  // another file, as after a repair
    has_failed_ = false;
    journal_.restart();
    journal_.poll(take);
  }
  return has_failed_;
}

}  // namespace distdl::observe
