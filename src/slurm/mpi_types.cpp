// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/mpi_types.hpp>
#include <distdl/slurm/queries/answers.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kTypesLimit = 10s;

std::vector<std::string> ask_types() {
  const auto result = ask({"srun", "--mpi=list"}, kTypesLimit);
  return result.exit_code == 0 ? mpi_types_in(result.output + result.errors) : std::vector<std::string>();
}
}  // namespace

const std::vector<std::string>& mpi_types() {
  static const auto types = ask_types();
  return types;
}

std::vector<std::string> mpi_types_in(std::string text) {
  for (const std::string_view rest : {"MPI plugin types are...", "specific pmix plugin versions available:", "srun:"})
    for (auto at = text.find(rest); at != std::string::npos; at = text.find(rest)) text.replace(at, rest.size(), "\n");
  std::replace(text.begin(), text.end(), ',', '\n');
  return words_in(text);
}

std::string best_mpi_type(const std::vector<std::string>& types) {
  const bool has_pmix = std::find(types.begin(), types.end(), "pmix") != types.end();
  return types.empty() || has_pmix ? "pmix" : "none";
}

}  // namespace distdl::slurm
