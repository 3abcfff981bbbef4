// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::app {

/// For tools that are a program of several ranks: those of a Slurm step, or `--local -n RANKS`.
struct LocalRanks {
  bool local = false;
  int ranks = 2;

  std::string interface = "auto";

  /// Also --interface. Returns --local.
  Option add_to(Command command);
  /// Calls `check`, which checks the input, starts the ranks if it has to, connects them, and runs `body` on each. Only
  /// rank 0 reports errors in the input. Any other error is reported by the rank that has it.
  void run(const std::function<void()>& check, const std::function<void(comm::Communicator&)>& body) const;

 private:
  /// With --local and in the process that the user started: runs this program again as so many ranks, passes signals
  /// on, and returns true when all have ended well; throws Ended with their code if not. Returns false in a
  /// rank, which keeps to one processor from then on if it is one of --local.
  bool launch(const std::function<void()>& check) const;
};

/// This process may run on any processor again, as long as this lives; for programs that it starts.
class Unpinned {
 public:
  Unpinned();
  ~Unpinned();
  Unpinned(const Unpinned&) = delete;
  Unpinned& operator=(const Unpinned&) = delete;
};

}  // namespace distdl::app
