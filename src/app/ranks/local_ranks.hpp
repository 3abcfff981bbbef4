// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::app {

/// For tools that consist of several ranks: those of a Slurm step, or `--local -n RANKS`.
struct LocalRanks {
  bool local = false;
  int ranks = 2;

  std::string interface = "auto";

  /// Adds also --interface. Returns the option --local.
  Option add_to(Command command);
  /// Calls `check`, which checks the input, starts the ranks if necessary, connects them, and runs `body` on each.
  /// Errors in the input are reported only by rank 0, and other errors by the rank on which they occur.
  void run(const std::function<void()>& check, const std::function<void(comm::Communicator&)>& body) const;

 private:
  /// With --local, in the process that the user started: runs this program again once per rank, forwards signals, and
  /// returns true when all have ended well. Throws Ended with their code otherwise. In a rank it returns false; a rank
  /// of --local is then bound to one processor.
  bool launch(const std::function<void()>& check) const;
};

/// The number of this rank among those of its host, which take its GPUs in turn.
std::int64_t place_on_host(const comm::Communicator& communicator);

/// While this object exists, this process may run on any processor, for programs that it starts.
class Unpinned {
 public:
  Unpinned();
  ~Unpinned();
  Unpinned(const Unpinned&) = delete;
  Unpinned& operator=(const Unpinned&) = delete;
};

}  // namespace distdl::app
