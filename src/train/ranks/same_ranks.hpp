// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/mesh.hpp>

// What ranks must have in common, or better should.
namespace distdl::train {

/// A file of one name may be another one on another node, or have been replaced while the ranks started. Collective.
/// `digest`: of this rank's data set. Throws StorageError.
void check_same_samples(comm::Communicator& communicator, const std::string& digest);

/// Rounding differs between libraries, instruction sets and GPUs: then who computes what does matter. `backends`: of
/// all ranks. `audits`: the run has them.
void warn_of_different_backends(const std::vector<std::string>& backends, bool audits);

/// Activations have the layout of the backend, which depends on its instruction set. Throws ConfigError.
void check_same_layouts(const std::vector<std::string>& backends, const parallel::Mesh& mesh);

}  // namespace distdl::train
