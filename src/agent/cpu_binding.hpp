// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::agent {

/// The processors that this process may use, in `ranks` equal parts of neighbours, as "0,1"; what is left over stays
/// unused, as srun leaves it. Empty texts if there are fewer processors than ranks: then all share all.
std::vector<std::string> processors_of_ranks(int ranks);

/// Binds this process to the processors that its agent named in DISTDL_PROCESSORS, if it did. Before it starts threads.
/// Throws ConfigError for a list that is none.
void bind_to_processors();

}  // namespace distdl::agent
