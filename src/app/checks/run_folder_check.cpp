// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string>

#include <unistd.h>

#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>

namespace distdl::app {
namespace {
void require_writable(const std::filesystem::path& folder, int problem) {
  require<StorageError>(problem == 0, "cannot write to the run folder \"{}\": {}; choose another run.dir",
                        folder.string(), errno_text(problem));
}

/// How many ranks `some` nodes run, if `nodes` run `ranks`.
int ranks_on(std::int64_t some, int ranks, std::int64_t nodes) {
  const std::int64_t count = std::max<std::int64_t>(1, ranks * some / nodes);
  require(count <= std::numeric_limits<int>::max(), "{} nodes would run {} ranks, which are too many", some, count);
  return static_cast<int>(count);
}

/// With as many stages on each rank as the model has at most, which parallel::check_stages() asks for.
bool can_with_fewer_stages(const parallel::Options& options, int ranks, int most_stages) try {
  auto fewer = options;
  const std::int64_t each = most_stages / std::max<std::int64_t>(1, options.pipeline_ranks);
  fewer.interleave = std::clamp<std::int64_t>(each, 1, options.interleave);
  parallel::degrees_of(fewer, ranks, most_stages);
  return true;
} catch (const ConfigError&) {
  return false;
}
}  // namespace

void check_run_folder(const std::filesystem::path& folder) {
  require(::access(folder.c_str(), F_OK) == 0 || errno != ENAMETOOLONG,
          "run.dir is \"{}\", which is longer than the file system takes", folder.string());
  auto there = std::filesystem::absolute(folder);
  std::error_code error;
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const bool is_folder = std::filesystem::is_directory(there, error);
  require_writable(folder, !is_folder ? ENOTDIR : ::access(there.c_str(), W_OK | X_OK) == 0 ? 0 : errno);
}

void make_run_folder(const std::filesystem::path& folder) {
  const auto logs = resolved(folder) / "logs";
  try {
    make_folders(real_file_system(), logs);
    if (!open_folder(logs.c_str())) throw FileError("open folder", logs, errno);
  } catch (const FileError& error) {
    throw StorageError(fmt::format("cannot write to the run folder \"{}\": {}; choose another run.dir", folder.string(),
                                   error.what()));
  }
  require_writable(folder, ::access(logs.c_str(), W_OK) == 0 ? 0 : errno);
}

RankCounts count_ranks(const config::Job& job, int tasks, int nodes) {
  if (nodes == 0 || job.agent.recovery != agent::Recovery::agents)
    return {.at_start = tasks, .at_most = tasks, .nodes = nodes};
  require(job.agent.spares < nodes, "run.spares is {}, but the job has {} nodes, one of which must run ranks",
          job.agent.spares, nodes);
  const std::int64_t own = nodes - job.agent.spares;
  const int at_start = ranks_on(own, tasks, nodes);
  const int at_most = ranks_on(static_cast<std::int64_t>(agent::wanted_nodes(job.agent, nodes)), at_start, own);
  return {.at_start = at_start, .at_most = at_most, .nodes = static_cast<int>(own)};
}

void check_plan(const config::Job& job, const RankCounts& ranks, int most_stages) {
  const auto& options = job.recipe.parallel;
  parallel::check(options);
  if (ranks.at_start > 0 && ranks.nodes > 0 && !ranks.goes_on)
    parallel::check_nodes_of_servers(options, ranks.at_start, ranks.nodes);
  const bool divides = ranks.at_start % options.context_ranks == 0;
  if (parallel::chooses_degrees(options) && divides) return;  // as the ranks do, which know the model
  if (options.pipeline_ranks == 1 && options.tensor_ranks == 1 && options.context_ranks == 1) {
    parallel::make_plan(options, std::max(1, ranks.at_most));
  } else if (std::string reason; ranks.at_start > 0 && ranks.goes_on) {
    parallel::nearest_degrees(options, ranks.at_start, most_stages, reason);
  } else if (ranks.at_start > 0 && !can_with_fewer_stages(options, ranks.at_start, most_stages)) {
    parallel::degrees_of(options, ranks.at_start, most_stages);
  }
}

}  // namespace distdl::app
