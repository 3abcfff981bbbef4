// SPDX-License-Identifier: Apache-2.0
// What the programs have in common that the scripts here start as ranks: rank 0 reads commands, all ranks measure, and
// rank 0 answers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::bench {

/// Runs `body` with the ranks connected. An argument --network, of those from `first` on: without shared memory, so
/// that the network carries everything.
template <class Body>
void run_rank(int argc, char** argv, int first, const Body& body) {
  comm::Options options;
  options.shared_memory_ranks = argc > first && std::string_view(argv[first]) == "--network" ? 1 : 0;
  const auto world = world::make_world();
  comm::run_connected(*world, options, body);
}

/// The main() of a program: what `body` throws is told, and gives the exit code.
template <class Body>
int report_errors(const char* program, const Body& body) try {
  body();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}: {}\n", program, error.what());
  return static_cast<int>(exit_code_of(error));
}

/// Rank 0's next line, for all; empty at the end.
inline std::string next_command(comm::Communicator& comm) {
  std::vector<std::byte> text(256);
  if (comm.rank() == Rank(0)) {
    std::string line;
    std::getline(std::cin, line);
    std::memcpy(text.data(), line.data(), std::min(line.size(), text.size() - 1));
  }
  // Whoever works at the keyboard may take his time.
  comm.broadcast(text, Rank(0), {.timeout = std::chrono::hours(12)}).wait();
  return reinterpret_cast<const char*>(text.data());
}

/// Says "ready" and who the ranks are. Then all call `measure(communicator, command)` for each line that rank 0 reads,
/// which answers "times T1 T2 ..." with the seconds that it returns.
template <class Measure>
int answer_commands(const char* program, int argc, char** argv, const Measure& measure) {
  return report_errors(program, [&] {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    run_rank(argc, argv, 1, [&](comm::Communicator& comm) {
      const bool tells = comm.rank() == Rank(0);
      if (tells) fmt::print("ready {}\n", comm.description());
      for (auto command = next_command(comm); !command.empty(); command = next_command(comm)) {
        const std::vector<double> times = measure(comm, command);
        if (tells) fmt::print("times {:.9g}\n", fmt::join(times, " "));
      }
    });
  });
}

}  // namespace distdl::bench
