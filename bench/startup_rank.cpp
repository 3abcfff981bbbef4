// SPDX-License-Identifier: Apache-2.0
// A rank of bench/startup: says when it came how far, from its main() to the end of its first all-reduce, and how much
// processor time that took. One JSON object per rank on stdout; times in microseconds, wall ones of CLOCK_MONOTONIC.
// startup_rank --endpoints [--network]: instead, the memory of rank 0 once it has an endpoint to each other rank.
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include "measuring_rank.hpp"
#include <distdl/comm/communicator.hpp>
#include <distdl/world/make_world.hpp>

namespace {
using namespace distdl;

double microseconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

std::string marks;
void mark(const char* name) {
  marks += fmt::format(R"(, "{}": [{:.0f}, {:.0f}])", name, microseconds(CLOCK_MONOTONIC),
                       microseconds(CLOCK_PROCESS_CPUTIME_ID));
}

/// Sees when the addresses are exchanged: what comes before is UCX's start, what comes after is the connecting.
class WatchedWorld final : public world::World {
 public:
  explicit WatchedWorld(std::unique_ptr<World> world) : world_(std::move(world)) {}
  Rank rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  std::string description() const override { return world_->description(); }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    address_bytes = mine.size();
    mark("address");
    auto all = world_->all_gather_strings(mine, timeout);
    mark("exchange");
    return all;
  }
  std::size_t address_bytes = 0;

 private:
  std::unique_ptr<World> world_;
};

void measure_start() {
  mark("main");
  WatchedWorld world(world::make_world());
  mark("world");
  const auto comm = comm::Communicator::connect(world, {});
  mark("connect");
  std::vector<float> values(1024, 1);
  comm->all_reduce(values).wait();
  mark("all_reduce");
  require<InternalError>(values.back() == static_cast<float>(comm->size()), "the sum is {}", values.back());
  fmt::print("{{\"rank\": {}, \"address_bytes\": {}{}}}\n", comm->rank(), world.address_bytes, marks);
  comm->close();
}

/// Of this process, in bytes.
struct Memory {
  double heap, resident;
};
Memory memory_now() {
  const auto info = ::mallinfo2();
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return {static_cast<double>(info.uordblks + info.hblkhd), static_cast<double>(pages * ::sysconf(_SC_PAGESIZE))};
}

/// There and back.
void ping(comm::Communicator& comm, Rank peer) {
  std::vector<std::byte> mine(8), theirs(8);
  auto receive = comm.receive(theirs, peer, 0);
  comm.send(mine, peer, 0).wait();
  receive.wait();
}

void measure_endpoints(comm::Communicator& comm) {
  if (comm.rank() != Rank(0)) return ping(comm, Rank(0));
  for (int r = 1; r < comm.size(); ++r) ping(comm, Rank(r));
  const Memory memory = memory_now();
  fmt::print("{{\"endpoints\": {}, \"heap_bytes\": {:.0f}, \"resident_bytes\": {:.0f}}}\n", comm.size() - 1,
             memory.heap, memory.resident);
}
}  // namespace

int main(int argc, char** argv) {
  return distdl::bench::report_errors("startup_rank", [&] {
    if (argc < 2) return measure_start();
    distdl::bench::run_rank(argc, argv, 2, &measure_endpoints);
  });
}
