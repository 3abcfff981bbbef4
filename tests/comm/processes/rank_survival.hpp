// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <distdl/comm/communicator.hpp>

namespace distdl::comm {

/// Says "exchanged" when all have this rank's address, and goes on when the file RANK_PROGRAM_GATE names is there: by
/// then what is to go wrong has. With RANK_PROGRAM_FATE "kill" or "freeze" this rank does that to itself there.
std::unique_ptr<world::World> gated(std::unique_ptr<world::World> world);

/// Connects and plays until a peer is lost; says whom, and that nothing is left of the communicator; then the ranks of
/// this host make the next generation, meeting in the folder RANK_PROGRAM_NEXT, and say their sum.
void survive(world::World& world, Options options, const std::function<void(Communicator&)>& play);

}  // namespace distdl::comm
