// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <distdl/app/bench/comm_operation.hpp>
#include <distdl/base/line_process.hpp>

namespace distdl::app {

/// Another library doing the same on the same machine, as programs of its own that wait quietly until it is their turn.
class Peer {
 public:
  /// Seconds per call, as OperationRun::measure() returns; or why not.
  struct Answer {
    std::vector<double> times;
    std::string refused;
  };

  /// `speaks`: this rank's program is the one that is asked; it must come up.
  Peer(std::string name, std::unique_ptr<LineProcess> program, bool speaks);
  const std::string& name() const { return name_; }
  /// What it says of itself: "Open MPI v4.1.4".
  const std::string& version() const { return version_; }
  /// On rank 0.
  Answer measure(Operation operation, comm::DataType type, std::size_t bytes, double seconds);

 private:
  std::string name_, version_;
  std::unique_ptr<LineProcess> program_;
};

/// A temporary folder for what is compiled, removed at the end.
class PeerFolder {
 public:
  PeerFolder();
  ~PeerFolder();
  PeerFolder(const PeerFolder&) = delete;
  PeerFolder& operator=(const PeerFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Where the peers' programs lie: beside the installed or the built distdl. Throws CommError if they do not.
std::filesystem::path peer_programs();

/// Throws UsageError for a name that start_peers() does not know.
void check_peers(const std::vector<std::string>& names);

/// Collective: the peers of `names` ("openmpi" stands for its default and its tuned settings, "mpich", "gloo") that
/// work here, each with its programs started; the others are explained on stderr. Rank 0 may ask them. Throws
/// UsageError for an unknown name.
std::vector<Peer> start_peers(const std::vector<std::string>& names, comm::Communicator& communicator,
                              const PeerFolder& folder, bool local);

}  // namespace distdl::app
