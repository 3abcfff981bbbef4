// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include <distdl/base/env.hpp>
#include <distdl/program/contract.hpp>
#include <distdl/program/program_variables.hpp>
#include <distdl/slurm/environment.hpp>

namespace distdl::program {
namespace {
std::string text(std::int64_t number) {
  return std::to_string(number);
}

}  // namespace

std::map<std::string, std::string> program_variables(const Placement& place, int processors) {
  std::map<std::string, std::string> all{
      {"RANK", text(place.rank)},
      {"WORLD_SIZE", text(place.size)},
      {"LOCAL_RANK", text(place.local_rank)},
      {"LOCAL_WORLD_SIZE", text(place.local_size)},
      {"GROUP_RANK", text(place.node)},
      {"GROUP_WORLD_SIZE", text(place.nodes)},
      {"NODE_RANK", text(place.node)},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", text(place.rank)},
      {"ROLE_WORLD_SIZE", text(place.size)},
      {"MASTER_ADDR", place.master_address},
      {"MASTER_PORT", text(place.master_port)},
      {"TORCHELASTIC_RUN_ID", place.run_id},
      {"TORCHELASTIC_RESTART_COUNT", text(std::max<std::int64_t>(0, place.start - 1))},
      {"TORCHELASTIC_MAX_RESTARTS", "1000000"},  // who gives up is distdl
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", place.error_file},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", env("TORCH_NCCL_ASYNC_ERROR_HANDLING").value_or("1")},
      {"OMP_NUM_THREADS", env("OMP_NUM_THREADS").value_or(text(std::max(1, processors)))},
      {"PYTHONUNBUFFERED", env("PYTHONUNBUFFERED").value_or("1")},  // else lines come late, and are lost in a crash
      {kContractVariable, place.contract},
      {"DISTDL_RUN_DIR", place.run_folder},
      {"DISTDL_START", text(place.start)},
  };
  if (!place.rendezvous.empty())
    all.merge(std::map<std::string, std::string>{{"DISTDL_RANK", text(place.rank)},
                                                 {"DISTDL_WORLD_SIZE", text(place.size)},
                                                 {"DISTDL_RENDEZVOUS", place.rendezvous},
                                                 {"DISTDL_LAUNCH_ID", place.launch_id}});
  all.merge(
      slurm::variables_of_rank({place.rank, place.size, place.local_rank, place.local_size, place.node, place.nodes}));
  return all;
}

std::vector<std::string> program_environment(const std::map<std::string, std::string>& variables, bool keeps_pmix) {
  auto all = environment_with(variables);
  std::erase_if(all, [&](const std::string& entry) {
    const auto name = std::string_view(entry).substr(0, entry.find('='));
    constexpr std::array<std::string_view, 3> kOwn{"DISTDL_BEATS", "DISTDL_ACTIVITY", "DISTDL_PROCESSORS"};
    const bool is_pmix = name.starts_with("PMIX_") || name.starts_with("PMI_");
    return std::ranges::count(kOwn, name) > 0 || (is_pmix && !keeps_pmix);
  });
  return all;
}

}  // namespace distdl::program
