// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/file_descriptor.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/config/job.hpp>
#include <distdl/program/contract_server.hpp>
#include <distdl/program/program_variables.hpp>

namespace distdl::app {

/// A port of this host that no other program takes until the one for which it is meant listens on it: as long as this
/// socket is bound, only a socket with SO_REUSEADDR, as that of torch's store, can be bound to it.
class HeldPort {
 public:
  /// Throws SchedulerError.
  HeldPort();
  int number() const { return number_; }

 private:
  FileDescriptor socket_;
  int number_ = 0;
};

/// Numbers of the rank, of its node and of the rank within it; nothing else.
program::Placement placement_of(const comm::Communicator& communicator);

/// The other members, on all ranks. `port`: that of rank 0. `keeps_pmix`: the program takes the identity that Slurm
/// gave to this process. Call it before this start is recorded, as it counts those before.
void complete_placement(program::Placement& place, const config::Job& job, comm::Communicator& communicator, int port,
                        const program::ContractServer& server, bool keeps_pmix);

}  // namespace distdl::app
