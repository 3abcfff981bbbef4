// SPDX-License-Identifier: Apache-2.0
// Every rank contributes a vector, every rank gets the sum:
//   srun --mpi=pmix --nodes=2 --ntasks-per-node=2 build/all_reduce
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include <distdl/comm/communicator.hpp>
#include <distdl/world/make_world.hpp>

int main() try {
  using namespace distdl;
  auto world = world::make_world();  // who am I, who are the others: PMIx tells
  comm::run_connected(*world, {}, [](comm::Communicator& comm) {
    std::vector<float> values(1'000'000, static_cast<float>(comm.rank().value + 1));
    comm.all_reduce(values).wait();  // between the two, this rank could compute
    if (comm.rank() == Rank(0))
      fmt::print("{} ranks: each of {} values is {}\n", comm.size(), values.size(), values.back());
  });
  return 0;
} catch (const std::exception& error) {  // such as PeerLost, which names the rank and its host; nothing hangs
  fmt::print(stderr, "all_reduce: {}\n", error.what());
  return static_cast<int>(distdl::exit_code_of(error));
}
