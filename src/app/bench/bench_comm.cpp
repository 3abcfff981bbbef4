// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <thread>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/bench/bench_comm.hpp>
#include <distdl/app/bench/comm_limits.hpp>
#include <distdl/app/bench/comm_peers.hpp>
#include <distdl/app/bench/comm_plot.hpp>
#include <distdl/app/bench/comm_report.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/log.hpp>
#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/selection/cost_cache.hpp>
#include <distdl/comm/selection/measure_costs.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
constexpr std::uint32_t kTag = 79;
constexpr auto kPatience = 1h;  // of ranks that wait for a peer to be measured

struct CommBenchArguments {
  LocalRanks local;
  std::vector<std::string> operations{"all_reduce"}, peers;
  std::string sizes = "8:64M:8", type = "float32", algorithm;
  std::size_t segment = 0;
  bool any_order = false, free_order = false, tune = false, json = false;
  bool wants_points = false;  ///< --tune alone measures none
  int rounds = 5;
  double seconds = 0.2;
  std::filesystem::path plot;
};

/// The others sleep, rather than poll a processor away, while rank 0 does something else.
void while_others_sleep(comm::Communicator& communicator, const std::function<void()>& work) {
  std::byte done{};
  if (communicator.rank() == Rank(0)) {
    work();
    for (Rank rank(1); rank.value < communicator.size(); ++rank.value) communicator.send({&done, 1}, rank, kTag).wait();
    return;
  }
  auto told = communicator.receive({&done, 1}, Rank(0), kTag, {.timeout = kPatience});
  while (!told.test()) std::this_thread::sleep_for(2ms);
}

class CommBench {
 public:
  CommBench(const CommBenchArguments& arguments, comm::Communicator& communicator)
      : arguments_(arguments),
        communicator_(communicator),
        first_(communicator.rank() == Rank(0)),
        type_(comm::data_type_of(arguments.type)),
        sizes_(sizes_from(arguments.sizes)),
        workspace_(communicator, sizes_.back()),
        limits_(communicator, workspace_, arguments.seconds / 2),
        peers_(start_peers(arguments.peers, communicator, folder_, arguments.local.local)) {
    if (first_ && !arguments.plot.empty()) write_plot("");  // rather now than after the measurement
    for (const auto& name : arguments.operations) operations_.push_back(operation_of(name));
    if (first_ && arguments.free_order)
      log(Severity::warning, "--free-order is called --any-order now; the next version will not know the old name");
    options_.order = arguments.any_order || arguments.free_order ? comm::Order::any : comm::Order::deterministic;
    if (!arguments.algorithm.empty())
      options_.choice = comm::Choice{
          .algorithm = comm::algorithm_of(arguments.algorithm), .segment = arguments.segment, .order = options_.order};
    report_.ranks = communicator.size();
    report_.nodes = limits_.nodes();
    report_.type = arguments.type;
    for (Rank rank(0); rank.value < communicator.size(); ++rank.value) report_.hosts.push_back(communicator.host(rank));
    report_.network_rate = limits_.network_rate();
    report_.largest = sizes_.back();
    report_.memory_rate = limits_.memory_rate(sizes_.back());
    for (const auto& peer : peers_) report_.peers.emplace_back(peer.name(), peer.version());
  }

  void run() {
    const bool table = first_ && !arguments_.json;
    if (table) fmt::print("{}\n{}", report_head(report_), table_head(report_));
    for (const auto operation : operations_)
      for (const auto bytes : sizes_) {
        if (operation == Operation::barrier && bytes != sizes_.front()) continue;
        report_.points.push_back(point(operation, bytes));
        if (!table) continue;
        clear_progress();
        fmt::print("{}", table_row(report_, report_.points.back()));
        std::fflush(stdout);
      }
    if (!first_) return;
    clear_progress();
    if (arguments_.json) fmt::print("{}\n", to_json(report_).dump(2));
    if (!arguments_.plot.empty()) write_plot(plot(report_));
  }

 private:
  CommPoint point(Operation operation, std::size_t bytes) {
    OperationRun run(communicator_, workspace_, operation, type_, bytes, options_);
    CommPoint point;
    point.operation = operation;
    point.bytes = run.bytes();
    for (const auto& peer : peers_) point.peers.push_back({peer.name(), "", {}});
    for (int round = 0; round < arguments_.rounds; ++round) {
      progress(operation, bytes, round, "distdl");
      require<InternalError>(run.is_right(), "{} of {} gives a wrong result", name_of(operation), size_text(bytes));
      point.limit.seconds.push_back(limits_.least_seconds(operation, point.bytes));
      point.ours.seconds.push_back(Rounds{run.measure(arguments_.seconds)}.median());
      if (operation != Operation::send_receive) {
        point.algorithm = run.choice().algorithm->name;
        point.segment = run.choice().segment;
      }
      for (std::size_t i = 0; i < peers_.size(); ++i)
        while_others_sleep(communicator_, [&] {
          auto& side = point.peers[i];
          if (!side.refused.empty()) return;
          progress(operation, bytes, round, side.name);
          const auto answer = peers_[i].measure(operation, type_, point.bytes, arguments_.seconds);
          side.refused = answer.refused;
          if (answer.refused.empty()) side.rounds.seconds.push_back(Rounds{answer.times}.median());
        });
    }
    return point;
  }

  void progress(Operation operation, std::size_t bytes, int round, const std::string& who) const {
    if (first_)
      console_.status(fmt::format("{} {}: round {} of {}, {}", name_of(operation), size_text(bytes), round + 1,
                                  arguments_.rounds, who));
  }
  void clear_progress() const {
    if (first_) console_.clear_status();
  }

  void write_plot(const std::string& drawing) const try {
    replace_text(real_file_system(), resolved(arguments_.plot), drawing);  // a link of the user is followed
  } catch (const FileError& error) {
    throw StorageError(fmt::format("cannot write \"{}\": {}; choose another file with --plot", arguments_.plot.string(),
                                   errno_text(error.number())));
  }

  const CommBenchArguments& arguments_;
  comm::Communicator& communicator_;
  bool first_;
  Console console_{STDERR_FILENO};
  comm::DataType type_;
  std::vector<std::size_t> sizes_;
  std::vector<Operation> operations_;
  comm::CallOptions options_;
  Workspace workspace_;
  Limits limits_;
  PeerFolder folder_;
  std::vector<Peer> peers_;
  CommReport report_;
};

void print_costs(const comm::CostTable& costs) {
  comm::describe_costs(costs, [&](const char* name, double value, const char* unit, const char* meaning) {
    const std::string_view in(unit);
    const auto text = in == "s"     ? fmt::format("{:.3f} us", value * 1e6)
                      : in == "B/s" ? fmt::format("{:.2f} GB/s", value / 1e9)
                                    : fmt::format("{:.0f} KiB", value / 1024);
    fmt::print("{:<18}{:>14}   {}\n", name, text, meaning);
  });
}

/// Measures the costs, keeps them for later runs, and lets this communicator choose by them.
void tune(comm::Communicator& communicator, const CommBenchArguments& arguments) {
  const Stopwatch watch;
  const auto costs = comm::measure_costs(communicator);
  communicator.set_costs(costs);
  if (communicator.rank() != Rank(0)) return;
  std::vector<std::string> hosts;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) hosts.push_back(communicator.host(rank));
  if (!arguments.json) {
    print_costs(costs);
    fmt::print("measured in {:.1f} s", watch.seconds());
    std::fflush(stdout);  // though they may not be kept
  } else if (!arguments.wants_points) {
    fmt::print("{}", comm::to_json(costs, hosts));
  }
  const auto file = comm::save_costs(costs, hosts);
  if (!arguments.json) fmt::print(", kept in {}\n", file.string());
}

/// Checks the arguments, as far as that is possible before any rank starts.
void check_comm_bench(const CommBenchArguments& arguments) {
  for (const auto& name : arguments.operations) operation_of(name);
  check_peers(arguments.peers);
  sizes_from(arguments.sizes);
  if (!arguments.algorithm.empty()) comm::algorithm_of(arguments.algorithm);
  comm::check_reduction(comm::data_type_of(arguments.type), comm::Reduction::sum);
}

void bench_comm(const CommBenchArguments& arguments) {
  arguments.local.run([&] { check_comm_bench(arguments); },
                      [&](comm::Communicator& communicator) {
                        if (arguments.tune) tune(communicator, arguments);
                        if (arguments.wants_points) CommBench(arguments, communicator).run();
                      });
}
}  // namespace

void add_bench_comm(Command bench) {
  auto command = bench.add_subcommand("comm", "Time collective operations; with --peers also those of other libraries");
  auto a = std::make_shared<CommBenchArguments>();
  a->local.add_to(command);
  auto op = command
                .add_option("--op", a->operations,
                            "Operations, with commas: " + fmt::format("{}", fmt::join(operation_names(), ", ")))
                .list()
                .show_default();
  auto sizes = command.add_option("--sizes", a->sizes, "Bytes: 8, 64K, 1K:256M (powers of two), 1K:256M:4, and lists")
                   .show_default();
  command.add_option("--type", a->type, "float32, float64, float16, bfloat16, int32 or int64").show_default();
  command.add_option("--peers", a->peers, "Also measure: openmpi, mpich, gloo (through PyTorch)").list();
  command.add_option("--algorithm", a->algorithm,
                     "Use this algorithm, for instance ring, instead of the one that costs predict to be the fastest");
  command.add_option("--segment", a->segment, "With --algorithm: elements sent at a time; 0: all at once");
  command.add_flag("--any-order", a->any_order,
                   "Allow sums to depend on the number and placement of ranks where that is faster");
  command.add_flag("--free-order", a->free_order, "The old name of --any-order, for this version");
  command.add_option("--rounds", a->rounds, "Rounds; each measures every library once").positive().show_default();
  command.add_option("--seconds", a->seconds, "Seconds per size, round and library").positive().show_default();
  command.add_flag(
      "--tune", a->tune,
      "First measure the costs that decide which algorithms are used, and store them for these hosts; measure "
      "collectives only with --op or --sizes");
  command.add_option("--plot", a->plot, "Draw time and bandwidth over size into this SVG file");
  command.add_flag("--json", a->json, "Print JSON");
  command.examples({{"distdl bench comm --local -n 2 --sizes 1K,1M", "Time the collectives of 2 ranks"},
                    {"srun --nodes=2 --mpi=pmix distdl bench comm --op all-reduce", "Time one between nodes"}});
  command.callback([a, op, sizes] {
    a->wants_points = !a->tune || op.given() || sizes.given();
    bench_comm(*a);
  });
}

}  // namespace distdl::app
