// SPDX-License-Identifier: Apache-2.0
// Heat spreads in a square plate whose edges keep their temperature, the upper one at 100 degrees, the others at 0:
// distdl without deep learning. Each rank has some rows of the plate. Whatever interrupts the run, it resumes from its
// last checkpoint, on any number of ranks, and ends with the same bytes.
//   srun --mpi=pmix build/heat FOLDER [SIZE [STEPS [STEPS_BETWEEN_CHECKPOINTS]]]
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/env.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/world/make_world.hpp>

namespace {
using namespace distdl;

volatile std::sig_atomic_t asked_to_stop = 0;

struct Options {
  std::string folder;  ///< for the checkpoints, on a file system that all nodes see
  std::int64_t size = 512, steps = 5000, save_every = 1000;
};

/// This rank's rows of the plate, and a copy of the row above and of the one below them.
class Plate {
 public:
  Plate(comm::Communicator& comm, std::int64_t size)
      : comm_(comm),
        size_(size),
        first_(first_of(comm.rank())),
        count_(first_of(Rank(comm.rank().value + 1)) - first_) {
    require(size >= 3 && size >= comm.size(), "a plate of {0} x {0} is too small for {1} ranks", size, comm.size());
    now_.resize(static_cast<std::size_t>((count_ + 2) * size));
    if (first_ == 0) std::ranges::fill(row(now_, 0), 100.0);
    next_ = now_;
  }

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

  /// A checkpoint knows the whole plate and the rows of each rank. Who reads may want other rows than who wrote.
  tensor::Shape shape() const { return {size_, size_}; }
  tensor::Box box() const { return {{first_, 0}, {count_, size_}}; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(now_).subspan(size_, count_ * size_)); }

 private:
  using Rows = std::vector<double>;

  std::int64_t first_of(Rank rank) const { return size_ * rank.value / comm_.size(); }
  /// Row i of this rank, from -1 to count_.
  std::span<double> row(Rows& rows, std::int64_t i) { return std::span(rows).subspan((i + 1) * size_, size_); }

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
  std::int64_t size_, first_, count_;
  Rows now_, next_;
};

/// checkpoint knows nothing of comm: this joins the two.
class Ranks final : public checkpoint::Group {
 public:
  explicit Ranks(comm::Communicator& comm) : comm_(comm) {}
  int rank() const override { return comm_.rank().value; }
  int size() const override { return comm_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override {
    return comm_.all_gather_strings(mine, std::chrono::minutes(10));  // others may be writing
  }

 private:
  comm::Communicator& comm_;
};

/// True when all steps are done; false when a signal stopped the run. Either way everything is saved.
bool simulate(comm::Communicator& comm, const Options& options) {
  const bool speaks = comm.rank() == Rank(0);
  Ranks ranks(comm);
  Plate plate(comm, options.size);
  checkpoint::Store store(options.folder, {});
  checkpoint::Owner owner;  // the one run that may write here; a lost twin that comes back may not
  owner.job = env("SLURM_JOB_ID").value_or("local");
  owner.restart = env_integer("SLURM_RESTART_COUNT").value_or(0);
  store.take(ranks, owner);
  Step step(0);
  if (const auto found = store.newest_valid(ranks)) {
    const checkpoint::Target target{"temperature", tensor::DataType::float64, plate.shape(), plate.box(),
                                    plate.bytes().data()};
    store.read(*found, {&target, 1});
    step = found->step;
  }
  if (speaks) fmt::print("{} ranks, from step {} of {}\n", comm.size(), step, options.steps);
  while (step.value < options.steps) {
    double votes[2] = {plate.step(), static_cast<double>(asked_to_stop)};
    comm.all_reduce(std::span<double>(votes), {.reduction = comm::Reduction::maximum}).wait();
    ++step.value;
    const bool stop = votes[1] > 0, last = step.value == options.steps;
    if (!stop && !last && step.value % options.save_every != 0) continue;
    const checkpoint::Slice slice{"temperature", tensor::DataType::float64, plate.shape(), plate.box(),
                                  plate.bytes().data()};
    store.save(ranks, step, {&slice, 1}, {});
    if (speaks) fmt::print("step {}: largest change {:.3e}; saved\n", step, votes[0]);
    if (stop && !last) return false;
  }
  return true;
}

Options options_of(int argc, char** argv) {
  require<UsageError>(argc >= 2 && argc <= 5, "usage: heat FOLDER [SIZE [STEPS [STEPS_BETWEEN_CHECKPOINTS]]]");
  Options options{argv[1]};
  std::int64_t* const numbers[] = {&options.size, &options.steps, &options.save_every};
  for (int i = 2; i < argc; ++i) {
    *numbers[i - 2] = std::atoll(argv[i]);
    require<UsageError>(*numbers[i - 2] > 0, "\"{}\" is not a positive number", argv[i]);
  }
  return options;
}
}  // namespace

int main(int argc, char** argv) try {
  // What Slurm sends before a time limit or a preemption, and Ctrl-C, mean: save and stop.
  for (int number : {SIGTERM, SIGINT, SIGUSR1}) std::signal(number, [](int) { asked_to_stop = 1; });
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Options options = options_of(argc, argv);
  bool finished = false;
  const auto world = world::make_world(options.folder);
  comm::run_connected(*world, {}, [&](comm::Communicator& comm) { finished = simulate(comm, options); });
  return static_cast<int>(finished ? ExitCode::ok : ExitCode::requeue);
} catch (const std::exception& error) {
  fmt::print(stderr, "heat: {}\n", error.what());
  return static_cast<int>(distdl::exit_code_of(error));
}
