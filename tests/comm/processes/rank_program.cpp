// SPDX-License-Identifier: Apache-2.0
// One rank of the process-level tests: rank_program SCENARIO TIMEOUT_SECONDS [FLOATS]
// SCENARIO: sum, endless, abort, speed, crowd, late, one_sided, gate, survive, tolerate, tolerate_abort.
// Prints one line per event to stdout; on an error its text to stderr, and exits with the error's code.
// "speed" measures the all-reduce: the median of several runs. "crowd" does a thousand of them. In "late" rank 0 comes
// two seconds late, and the others tell how much of that time they used a processor. "one_sided" is put, get and
// messages. "gate" is "endless" behind one; "survive" is "endless" and a next generation (rank_survival.hpp).
// In "tolerate" rank 2 is killed and the others go on (rank_tolerance.hpp), in "tolerate_abort" it gives up.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/comm/processes/rank_one_sided.hpp"
#include "tests/comm/processes/rank_survival.hpp"
#include "tests/comm/processes/rank_tolerance.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::comm {
namespace {

void print_line(const std::string& line) {
  std::cout << line << std::endl;
}

/// Each rank contributes its rank + 1; returns the sum's first element.
float sum_once(Communicator& comm, std::size_t floats) {
  std::vector<float> values(floats, static_cast<float>(comm.rank().value + 1));
  comm.all_reduce(values).wait();
  for (float value : values)
    if (value != values[0]) throw Error(ExitCode::internal, "the sum differs between elements");
  return values[0];
}

void measure(Communicator& comm, std::size_t floats) {
  const tensor::Buffer memory = comm.allocate(floats * sizeof(float));
  const auto values = memory.as<float>();
  std::vector<double> times;
  for (int round = 0; round < 25; ++round) {
    comm.barrier().wait();
    const Stopwatch stopwatch;
    comm.all_reduce(values).wait();
    times.push_back(stopwatch.seconds());
  }
  std::sort(times.begin() + 5, times.end());  // the first ones warm up
  const double median = times[15], bytes = static_cast<double>(floats * sizeof(float));
  if (comm.rank() == Rank(0))
    print_line(fmt::format("{} bytes, {} ranks: median {:.1f} us (best {:.1f}, worst {:.1f}), {:.2f} GB/s", bytes,
                           comm.size(), median * 1e6, times[5] * 1e6, times.back() * 1e6, bytes / median * 1e-9));
}

void crowd(Communicator& comm, std::size_t floats) {
  const Stopwatch stopwatch;
  for (int round = 0; round < 1000; ++round) (void)sum_once(comm, floats);
  print_line(fmt::format("crowd {:.2f} s", stopwatch.seconds()));
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + time.tv_usec * 1e-6; };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void be_late(Communicator& comm, std::size_t floats) {
  (void)sum_once(comm, floats);
  if (comm.rank() == Rank(0)) std::this_thread::sleep_for(Milliseconds(2000));
  const double before = processor_seconds();
  const Stopwatch stopwatch;
  (void)sum_once(comm, floats);
  print_line(fmt::format("waited {:.3f} s, {:.3f} s of them on a processor", stopwatch.seconds(),
                         processor_seconds() - before));
}

void play(Communicator& comm, const std::string& scenario, std::size_t floats) {
  print_line(fmt::format("connected rank {} of {} on {}", comm.rank(), comm.size(), comm.host(comm.rank())));
  if (scenario == "speed") return measure(comm, floats);
  if (scenario == "crowd") return crowd(comm, floats);
  if (scenario == "late") return be_late(comm, floats);
  if (scenario == "one_sided") {
    put_get_and_send_messages(comm, floats);
    return print_line("one-sided done");
  }
  if (scenario.starts_with("tolerate")) {
    constexpr Rank kFragile(2);
    return go_on_without(comm, kFragile, floats, [&] {
      if (comm.rank() != kFragile) return;
      if (scenario == "tolerate_abort") throw Error(ExitCode::config, "cannot open \"x.h5\": no such file");
      ::kill(::getpid(), SIGKILL);  // not while it writes to a queue of UCX in shared memory, which would block others
    });
  }
  for (int round = 0; scenario != "sum" || round < 20; ++round) {
    const float sum = sum_once(comm, floats);
    if (sum != static_cast<float>(comm.size() * (comm.size() + 1) / 2)) throw Error(ExitCode::internal, "wrong sum");
    if (round == 5) print_line(fmt::format("running {}", comm.description()));
    if (scenario == "abort" && comm.rank() == Rank(1))
      throw Error(ExitCode::config, "cannot open \"x.h5\": no such file");
  }
  print_line(fmt::format("sum {}", sum_once(comm, floats)));
}

int run(int argc, char** argv) {
  require(argc >= 3, "usage: rank_program SCENARIO TIMEOUT_SECONDS [FLOATS]");
  Options options;
  options.timeout_seconds = options.connect_timeout_seconds = std::atof(argv[2]);
  options.shared_memory_ranks = env("RANK_PROGRAM_NETWORK") ? 1 : 0;
  options.interface = env("RANK_PROGRAM_INTERFACE").value_or("auto");
  const std::size_t floats = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 100000;
  const std::string scenario = argv[1];
  auto world = world::make_world();
  if (scenario == "gate") world = gated(std::move(world));
  const auto body = [&](Communicator& comm) { play(comm, scenario, floats); };
  if (scenario == "survive")
    survive(*world, options, body);
  else
    run_connected(*world, options, body);
  return 0;
}

}  // namespace
}  // namespace distdl::comm

int main(int argc, char** argv) {
  ::alarm(600);  // ends it where the test that started it was killed
  try {
    return distdl::comm::run(argc, argv);
  } catch (const distdl::Error& error) {
    std::cerr << error.what() << std::endl;
    return static_cast<int>(error.exit_code());
  }
}
