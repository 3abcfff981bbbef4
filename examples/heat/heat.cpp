// SPDX-License-Identifier: Apache-2.0
// Heat spreads in a square plate whose upper edge stays at 100 degrees, the others at 0: distdl without deep learning.
// Each rank has some rows of it. Whatever interrupts the run, it resumes from its last checkpoint, on any number of
// ranks, and ends with the same bytes.
//   srun --mpi=pmix build/heat FOLDER [SIZE [STEPS [STEPS_BETWEEN_CHECKPOINTS]]]
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/env.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/groups/communicator_group.hpp>
#include <distdl/world/make_world.hpp>

namespace {
using namespace distdl;
volatile std::sig_atomic_t asked_to_stop = 0;

/// This rank's rows of the plate, and a copy of the row above and of the one below them.
struct Plate {
  Plate(comm::Communicator& comm, std::int64_t size) : comm_(comm), size_(size) {
    require(size >= 3 && size >= comm.size(), "a plate of {0} x {0} is too small for {1} ranks", size, comm.size());
    now_.resize(static_cast<std::size_t>((count_ + 2) * size));
    if (first_ == 0) std::ranges::fill(row(now_, 0), 100.0);
    next_ = now_;
  }
  std::int64_t first_of(int rank) const { return size_ * rank / comm_.size(); }
  /// One step in time; the largest change of a temperature. The outer rows travel while the inner ones are computed.
  double step() {
    std::vector<comm::Request> halo;
    trade(halo, Rank(comm_.rank().value - 1), 0, -1);
    trade(halo, Rank(comm_.rank().value + 1), count_ - 1, count_);
    double change = update(1, count_ - 1);
    for (auto& request : halo) request.wait();
    change = std::max({change, update(0, 1), update(count_ - 1, count_)});
    now_.swap(next_);
    return change;
  }
  /// The whole plate, this rank's box of it, and the bytes of that. Who reads may want other rows than who wrote.
  template <class Part>
  Part part() {
    auto* const bytes = reinterpret_cast<std::byte*>(row(now_, 0).data());
    return {"temperature", tensor::DataType::float64, {size_, size_}, {{first_, 0}, {count_, size_}}, bytes};
  }
  /// Row i of this rank, from -1 to count_.
  std::span<double> row(std::vector<double>& rows, std::int64_t i) {
    return std::span(rows).subspan((i + 1) * size_, size_);
  }
  void trade(std::vector<comm::Request>& halo, Rank neighbour, std::int64_t mine, std::int64_t theirs) {
    if (neighbour.value < 0 || neighbour.value >= comm_.size()) return;
    halo.push_back(comm_.receive(std::as_writable_bytes(row(now_, theirs)), neighbour, 0));
    halo.push_back(comm_.send(std::as_bytes(row(now_, mine)), neighbour, 0));
  }
  double update(std::int64_t begin, std::int64_t end) {
    double change = 0;
    for (std::int64_t i = std::max(begin, 1 - first_); i < std::min(end, size_ - 1 - first_); ++i) {
      const auto above = row(now_, i - 1), here = row(now_, i), below = row(now_, i + 1), result = row(next_, i);
      for (std::size_t j = 1; j + 1 < here.size(); ++j) {
        result[j] = here[j] + 0.2 * (above[j] + below[j] + here[j - 1] + here[j + 1] - 4 * here[j]);
        change = std::max(change, std::abs(result[j] - here[j]));
      }
    }
    return change;
  }
  comm::Communicator& comm_;
  std::int64_t size_, first_ = first_of(comm_.rank().value), count_ = first_of(comm_.rank().value + 1) - first_;
  std::vector<double> now_, next_;
};

/// True when all steps are done; false when a signal stopped the run. Either way everything is saved.
bool simulate(comm::Communicator& comm, const char* folder, const std::array<std::int64_t, 3>& numbers) {
  const auto [size, steps, every] = numbers;
  groups::CommunicatorGroup ranks(comm, 600);  // seconds that others may be writing
  Plate plate(comm, size);
  checkpoint::Store store(folder, {});
  checkpoint::Owner owner;  // the one run that may write here; a lost twin that comes back may not
  owner.job = env("SLURM_JOB_ID").value_or("local");
  owner.restart = env_integer("SLURM_RESTART_COUNT").value_or(0);
  store.take(ranks, owner);
  const auto found = store.newest_valid(ranks);
  if (found) store.read(*found, std::vector{plate.part<checkpoint::Target>()});
  Step step = found ? found->step : Step(0);
  if (comm.rank() == Rank(0)) fmt::print("{} ranks, from step {} of {}\n", comm.size(), step, steps);
  while (step.value < steps) {
    double votes[2] = {plate.step(), static_cast<double>(asked_to_stop)};
    comm.all_reduce(std::span<double>(votes), {.reduction = comm::Reduction::maximum}).wait();
    ++step.value;
    const bool stops = votes[1] > 0 && step.value < steps;
    if (!stops && step.value < steps && step.value % every != 0) continue;
    store.save(ranks, step, std::vector{plate.part<checkpoint::Slice>()}, {});
    if (comm.rank() == Rank(0)) fmt::print("step {}: largest change {:.3e}; saved\n", step, votes[0]);
    if (stops) return false;
  }
  return true;
}
}  // namespace

int main(int argc, char** argv) try {
  std::array<std::int64_t, 3> numbers{512, 5000, 1000};
  for (int i = 2; i < std::min(argc, 5); ++i) numbers[i - 2] = std::atoll(argv[i]);
  require<UsageError>(argc >= 2 && argc <= 5 && std::ranges::min(numbers) > 0,
                      "usage: heat FOLDER [SIZE [STEPS [STEPS_BETWEEN_CHECKPOINTS]]], all of them positive");
  // What Slurm sends before a time limit or a preemption, and Ctrl-C, mean: save and stop.
  for (int number : {SIGTERM, SIGINT, SIGUSR1}) std::signal(number, [](int) { asked_to_stop = 1; });
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  bool finished = false;
  comm::run_connected(*world::make_world(argv[1]), {},
                      [&](comm::Communicator& comm) { finished = simulate(comm, argv[1], numbers); });
  return static_cast<int>(finished ? ExitCode::ok : ExitCode::requeue);
} catch (const std::exception& error) {
  fmt::print(stderr, "heat: {}\n", error.what());
  return static_cast<int>(exit_code_of(error));
}
