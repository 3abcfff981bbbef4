// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/world/folder_world.hpp>
#include <distdl/world/make_world.hpp>
#include <distdl/world/pmix_world.hpp>

namespace distdl::world {
namespace {

class SoloWorld : public World {
 public:
  Rank rank() const override { return Rank(0); }
  int size() const override { return 1; }
  std::string description() const override { return "a single process"; }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds) override { return {mine}; }
};

int number(const std::string& variable, std::optional<long long> fallback = std::nullopt) {
  const auto value = env_integer(variable);
  require(value || fallback, "environment variable {} is not set, but others that belong to it are", variable);
  return static_cast<int>(value ? *value : *fallback);
}

/// As our own launcher wishes.
std::unique_ptr<World> from_launcher() {
  const auto folder = env("DISTDL_RENDEZVOUS");
  const auto launch_id = env("DISTDL_LAUNCH_ID");
  require(folder && launch_id,
          "DISTDL_RANK is set, but DISTDL_RENDEZVOUS (a folder that all ranks see) or DISTDL_LAUNCH_ID is not");
  std::error_code unknown;  // what cannot be looked at, its first use reports
  std::filesystem::path shared = std::filesystem::weakly_canonical(*folder, unknown);  // a user may name a link
  if (unknown) shared = *folder;
  return make_folder_world({shared, *launch_id, Rank(number("DISTDL_RANK")), number("DISTDL_WORLD_SIZE")});
}

/// A batch script is a step too, but of one task, and then SLURM_STEP_ID is not set.
bool in_slurm_step() {
  return env("SLURM_STEP_ID") && env("SLURM_PROCID");
}

/// The restart count is part of the name: a requeued job keeps its job id and counts its steps from 0 again.
std::string slurm_launch_id() {
  return fmt::format("slurm-{}.{}.{}", number("SLURM_JOB_ID"), number("SLURM_STEP_ID"),
                     number("SLURM_RESTART_COUNT", 0));
}

int tasks_of_step() {
  return number("SLURM_STEP_NUM_TASKS", env_integer("SLURM_NTASKS").value_or(1));
}

std::unique_ptr<World> without_pmix(int tasks, const std::filesystem::path& shared_folder) {
  if (tasks == 1) return std::make_unique<SoloWorld>();
  require<SchedulerError>(
      !shared_folder.empty(),
      "this Slurm step has {} tasks, but no PMIx server answers, so each task would be rank 0 of 1; start the "
      "step with \"srun --mpi=pmix\" (\"srun --mpi=list\" shows whether this Slurm supports it), or give a rendezvous "
      "folder "
      "that all nodes see",
      tasks);
  return make_folder_world({shared_folder, slurm_launch_id(), Rank(number("SLURM_PROCID")), tasks});
}

}  // namespace

std::unique_ptr<World> make_world(const std::filesystem::path& shared_folder, StepPmix pmix) {
  if (env("DISTDL_RANK")) return from_launcher();
  const bool step = in_slurm_step();
  if (!step && !env("PMIX_RANK")) return std::make_unique<SoloWorld>();
  if (step && pmix == StepPmix::leave_to_child) return without_pmix(tasks_of_step(), shared_folder);
  if (auto world = connect_pmix_world()) return world;
  const int tasks = step ? tasks_of_step() : 1;
  if (tasks > 1 && !shared_folder.empty())
    log(Severity::warning, "no PMIx server answers: the rendezvous of the ranks is in \"{}\"", shared_folder.string());
  return without_pmix(tasks, shared_folder);
}

}  // namespace distdl::world
