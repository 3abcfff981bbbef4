// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/mesh.hpp>

// Checks of properties that all ranks must, or should, have in common.
namespace distdl::train {

/// A file of one name may be another one on another node, or have been replaced while the ranks started. Collective.
/// `digest`: of this rank's data set. Throws StorageError.
void check_same_samples(comm::Communicator& communicator, const std::string& digest);

/// Warns if ranks have different backends: rounding differs between libraries, instruction sets and GPUs, so the result
/// depends on which rank computes which microbatch. `backends`: backends of all ranks. `audits`: true if the run has
/// audits.
void warn_of_different_backends(const std::vector<std::string>& backends, bool audits);

/// Throws ConfigError if ranks that hold a model together have different backends: they exchange activations, whose
/// layout depends on the backend and its instruction set.
void check_same_layouts(const std::vector<std::string>& backends, const parallel::Mesh& mesh);

}  // namespace distdl::train
