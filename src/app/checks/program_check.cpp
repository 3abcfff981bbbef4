// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <unistd.h>

#include <distdl/app/checks/program_check.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/program_path.hpp>
#include <distdl/program/mpi_library.hpp>

namespace distdl::app {

namespace {
/// The ranks of an MPI program find each other by the PMIx of a step of srun: elsewhere each would be alone, and none
/// would say so.
void check_mpi(const config::Job& job, const std::string& file, const RankCounts& ranks) {
  const bool is_step = ranks.here == 0 && job.agent.recovery == agent::Recovery::relaunch;
  if (is_step || ranks.at_start == 1 || !job.program.container.empty()) return;
  const auto library = program::mpi_library_of(file);
  if (library.empty() || job.launch.mpi == launch::Mpi::none) return;
  const auto problem =
      fmt::format("\"{}\" is an MPI program (it needs {}), and each of its ranks would be alone: ", printable(file),
                  printable(library));
  require(ranks.here == 0,
          "{}--local cannot connect them. Run it in a Slurm job with run.recovery = \"relaunch\", or with -n 1; or set "
          "run.mpi = \"none\" if its ranks are not to meet by MPI",
          problem);
  throw ConfigError(problem +
                    "set run.recovery = \"relaunch\", so that srun starts it with PMIx; or run.mpi = \"none\" if its "
                    "ranks are not to meet by MPI (docs/programs.md)");
}
}  // namespace

void check_program(const config::Job& job, const RankCounts& ranks) {
  const program::Options& program = job.program;
  const auto name = program.container.empty() ? program::command_of(program).front() : program.container.front();
  if (name.find('/') == std::string::npos) {
    const auto file = found_on_path(name);
    require(!file.empty(), "there is no program \"{}\" on PATH", printable(name));
    return check_mpi(job, file, ranks);
  }
  std::error_code error;
  require(std::filesystem::is_regular_file(name, error), "there is no program \"{}\"", printable(name));
  const bool can_be_run = ::access(name.c_str(), X_OK) == 0;
  require(can_be_run, "the program \"{}\" cannot be run: {}", printable(name), errno_text(errno));
  check_mpi(job, name, ranks);
}

}  // namespace distdl::app
