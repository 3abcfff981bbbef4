// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "tests/pace.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/comm/shm/node_memory.hpp>

namespace distdl::comm {

/// What shared memory leaves behind while it is held.
struct Traces {
  int descriptors = 0;  ///< of this process
  int maps = 0;         ///< of segments, in this process
  int names = 0;        ///< of segments of jobs named by job_of_test()
  bool operator==(const Traces&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Traces& traces) {
  return out << traces.descriptors << " descriptors, " << traces.maps << " maps, " << traces.names << " names";
}

/// Other tests of this user may run.
inline std::string job_of_test() {
  return "test" + std::to_string(::getpid());
}

inline int names_of(const std::string& job) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    if (entry.path().filename().string().find("-" + job + "-") != std::string::npos) ++count;
  return count;
}

/// Of a job whose living ranks have `living` names, after what its dead ones left is gone. Each rank of any test sweeps
/// as it starts: it may have locked a name that it is about to remove.
inline int names_after_sweep(const std::string& job, int living) {
  const Deadline deadline = Deadline::after(paced(Milliseconds(1000)));
  while (true) {
    NodeMemory::sweep();
    const int names = names_of(job);
    if (names == living || deadline.expired()) return names;
    std::this_thread::sleep_for(Milliseconds(1));
  }
}

inline Traces traces() {
  Traces all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    all.descriptors += !entry.path().empty();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) all.maps += line.find("/dev/shm/distdl-") != std::string::npos;
  all.names = names_of(job_of_test());
  return all;
}

/// Of ranks 0, 10, 20, ... that are threads of this process.
inline std::vector<std::unique_ptr<NodeMemory>> attached_memories(int size) {
  std::vector<std::unique_ptr<NodeMemory>> all;
  std::vector<NodeRank> node_ranks;
  for (int i = 0; i < size; ++i) {
    all.push_back(std::make_unique<NodeMemory>(job_of_test()));
    node_ranks.push_back({Rank(10 * i), all.back()->name()});
  }
  for (auto& memory : all) memory->attach(node_ranks);
  for (auto& memory : all) memory->unlink();
  return all;
}

}  // namespace distdl::comm
