// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace distdl::program {

/// Place of a program among the ranks. Nodes are numbered by their lowest rank.
struct Placement {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  ///< among the ranks of the node
  int node = 0, nodes = 1;
  std::string master_address = {};  ///< a host at which all ranks reach rank 0
  int master_port = 0;              ///< free there
  std::string run_id = {};
  std::int64_t start = 1;       ///< number of this start of the run
  std::string run_folder = {};  ///< absolute
  std::string error_file = {};  ///< absolute; torch.distributed.elastic writes the exception of a rank to it
  std::string contract = {};    ///< path of the socket
  /// Folder and name by which the programs find each other, if they use distdl's libraries; an empty folder: by PMIx.
  std::string rendezvous = {}, launch_id = {};
};

/// The variables by which programs of today's launchers find each other: those that torchrun sets ("Environment
/// Variables" of torch.distributed.run), which Lightning, Accelerate and DeepSpeed read; Slurm's, true for each rank;
/// distdl's own. OMP_NUM_THREADS (the rank's `processors`) and PYTHONUNBUFFERED stay as the user has set them.
std::map<std::string, std::string> program_variables(const Placement& place, int processors);

/// The environment of the program: that of this process with these variables, without those by which this process
/// belongs to its agent. `keeps_pmix`: an MPI program has the identity that Slurm gave to this process.
std::vector<std::string> program_environment(const std::map<std::string, std::string>& variables, bool keeps_pmix);

}  // namespace distdl::program
