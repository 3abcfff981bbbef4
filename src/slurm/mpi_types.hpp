// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::slurm {

/// Returns the types of "srun --mpi=list" on this host: "none", "pmi2", "pmix", "pmix_v4". Asked once in a process.
/// Empty if srun does not answer within 10 s.
const std::vector<std::string>& mpi_types();

/// Returns the types in such a text of srun: "MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions
/// available: pmix_v4".
std::vector<std::string> mpi_types_in(std::string text);

/// The type for ranks that find each other by PMIx, or else in the run folder: "pmix", or "none" where srun lists types
/// but not that.
std::string best_mpi_type(const std::vector<std::string>& types);

}  // namespace distdl::slurm
