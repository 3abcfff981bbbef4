// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>

namespace distdl::app {

/// `--local -n RANKS`, for tools that are a program of several ranks.
struct LocalRanks {
  bool local = false;
  int ranks = 2;

  void add_to(CLI::App& command);
  /// With --local and in the process that the user started: runs this program again as so many ranks, passes signals
  /// on, and returns true when all have ended well; throws CLI::RuntimeError with their code if not. Returns false in a
  /// rank, which keeps to one processor from then on if it is one of --local.
  bool launch() const;
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
