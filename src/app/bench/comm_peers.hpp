// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <distdl/app/bench/comm_operation.hpp>
#include <distdl/base/line_process.hpp>
#include <distdl/files/own_folder.hpp>
#include <distdl/files/temporary_folder.hpp>

namespace distdl::app {

/// Another library that does the same on the same machine, in separate programs that are idle until it is their turn.
class Peer {
 public:
  /// Seconds per call, as from OperationRun::measure(), or the reason why there are none.
  struct Answer {
    std::vector<double> times;
    std::string refused;
  };

  /// `speaks`: commands go to the program of this rank, which must start.
  Peer(std::string name, std::unique_ptr<LineProcess> program, bool speaks);
  const std::string& name() const { return name_; }
  /// The version that it reports, such as "Open MPI v4.1.4".
  const std::string& version() const { return version_; }
  /// Called on rank 0.
  Answer measure(Operation operation, comm::DataType type, std::size_t bytes, double seconds);

 private:
  std::string name_, version_;
  std::unique_ptr<LineProcess> program_;
};

/// A temporary folder for compiled programs, which is removed at the end.
class PeerFolder : public ScratchFolder {
 public:
  PeerFolder() : ScratchFolder(resolved(temporary_folder()), "distdl-peers") {}
};

/// The folder of the peers' programs, which belongs to the installed or built distdl. Throws CommError if it does not
/// exist.
std::filesystem::path peer_programs();

/// Throws UsageError for a name that start_peers() does not know.
void check_peers(const std::vector<std::string>& names);

/// Collective. Starts the programs of those peers in `names` that work here: "openmpi" (with default and tuned
/// settings), "mpich" and "gloo". For the others the reason is printed to stderr. Rank 0 may use them. Throws
/// UsageError for an unknown name.
std::vector<Peer> start_peers(const std::vector<std::string>& names, comm::Communicator& communicator,
                              const PeerFolder& folder, bool local);

}  // namespace distdl::app
