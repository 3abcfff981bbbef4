// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/bench/bench_checkpoint.hpp>
#include <distdl/app/bench/bench_comm.hpp>
#include <distdl/app/bench/comm_peers.hpp>
#include <distdl/app/bench/raw_file.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/base/checksum.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/line_process.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/groups/writing_group.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::size_t kTensorBytes = 4 << 20;
constexpr double kSavePatience = 3600;

struct CheckpointBenchArguments {
  LocalRanks local;
  std::string size = "256M";
  fs::path dir = ".";
  std::vector<std::string> peers;
  checkpoint::Options options;
  int rounds = 3;
  bool json = false;
};

/// This rank's part of a state: whole tensors of 4 MiB with random bytes, every ranks-th of all.
class BenchState {
 public:
  BenchState(std::size_t bytes, int rank, int ranks) : total_(bytes / kTensorBytes * kTensorBytes) {
    std::size_t tensors = bytes / kTensorBytes, mine = 0;
    for (std::size_t i = 0; i < tensors; ++i)
      mine += i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank);
    memory_ = tensor::allocate_host(mine * kTensorBytes);
    auto words = memory_.as<std::uint32_t>();
    for (std::size_t i = 0; i + 4 <= words.size(); i += 4) {
      auto block = Philox::block(1, static_cast<std::uint64_t>(rank), i);
      for (std::size_t k = 0; k < 4; ++k) words[i + k] = block[k] & 0xBFFFFFFF;  // finite, as training's are
    }
    const tensor::Shape shape{kTensorBytes / 4 / 1024, 1024};
    for (std::size_t i = 0, at = 0; i < tensors; ++i) {
      if (i % static_cast<std::size_t>(ranks) != static_cast<std::size_t>(rank)) continue;
      slices_.push_back({fmt::format("layer{:05d}.weight", i), tensor::DataType::float32, shape, tensor::whole(shape),
                         static_cast<std::byte*>(memory_.data()) + at});
      at += kTensorBytes;
    }
  }
  std::span<const std::byte> bytes() const { return memory_.as<const std::byte>(); }
  std::span<std::byte> memory() { return memory_.as<std::byte>(); }
  std::size_t total() const { return total_; }  ///< bytes of the state of all ranks
  const std::vector<checkpoint::Slice>& slices() const { return slices_; }

 private:
  std::size_t total_;
  tensor::Buffer memory_;
  std::vector<checkpoint::Slice> slices_;
};

/// Seconds of each measurement, by its name, in the order of the rounds.
using Seconds = std::map<std::string, std::vector<double>>;
/// Ratio of two measurements. Above 1 distdl is better, but for stall_to_memcpy.
struct Ratio {
  const char *name, *above, *below, *meaning;
};
constexpr Ratio kRatios[] = {
    {"save_to_raw", "raw_write", "save", "durable save: speed relative to pwrite and fsync"},
    {"save_to_raw_direct", "raw_write_direct", "save", "durable save: speed relative to pwrite past the page cache"},
    {"stall_to_memcpy", "stall", "memcpy", "stall: time relative to memcpy"},
    {"restore_to_raw", "raw_read", "restore", "restore: speed relative to pread"},
    {"torch_to_save", "torch_save", "save", "durable save: time of torch.save relative to distdl"},
    {"torch_to_stall", "torch_save", "stall", "stall: time of torch.save relative to it"},
    {"torch_to_restore", "torch_load", "restore", "restore: time of torch.load relative to distdl"},
};

/// Round by round, so that a drift of the machine's speed cancels.
std::vector<double> ratios(const Seconds& seconds, const Ratio& ratio) {
  std::vector<double> values;
  auto above = seconds.find(ratio.above), below = seconds.find(ratio.below);
  if (above == seconds.end() || below == seconds.end()) return values;
  for (std::size_t i = 0; i < std::min(above->second.size(), below->second.size()); ++i)
    values.push_back(above->second[i] / below->second[i]);
  std::sort(values.begin(), values.end());
  return values;
}

class CheckpointBench {
 public:
  CheckpointBench(const CheckpointBenchArguments& arguments, comm::Communicator& communicator)
      : arguments_(arguments),
        communicator_(communicator),
        first_(communicator.rank() == Rank(0)),
        group_(communicator, kSavePatience),
        state_(sizes_from(arguments.size).back(), communicator.rank().value, communicator.size()),
        folder_(arguments.dir, communicator),
        store_(folder_.path() / "checkpoints", arguments.options),
        checksum_(crc32c(state_.bytes())) {
    require<UsageError>(state_.total() >= kTensorBytes * static_cast<std::size_t>(communicator.size()),
                        "--size {} is less than 4 MiB a rank", arguments.size);
    store_.take(group_, {"local", 0, 0, ""});
    saver_.emplace(store_, group_, groups::make_writing_group(communicator, group_.timeout()),
                   checkpoint::Saver::Setup{fmt::format("bench_{}", ::getppid())});
    saver_->prepare(state_.slices(), {});
    copy_ = tensor::allocate_host(state_.bytes().size());
    if (first_) start_peers();
  }

  void run() {
    if (first_) progress_.emplace("warm-up", WorkUnit::rounds, static_cast<std::uint64_t>(arguments_.rounds) + 1);
    for (int round = -1; round < arguments_.rounds; ++round) {  // the first one warms up
      measure(round);
      work_done(WorkUnit::rounds, 1);
    }
    progress_.reset();
    saver_->close();
    if (!first_) return;
    arguments_.json ? print_json() : print();
  }

 private:
  void start_peers() {
    for (const std::string& name : arguments_.peers) try {
        const Unpinned anywhere;
        auto program = (peer_programs() / "checkpoint_torch.py").string();
        torch_ =
            std::make_unique<LineProcess>(std::vector<std::string>{"/usr/bin/python3", program, folder_.path().string(),
                                                                   std::to_string(state_.total() >> 20)},
                                          std::map<std::string, std::string>{});
        auto ready = torch_->read_line(120s);
        require<CommError>(ready && ready->starts_with("ready "), "{}", "its program does not start");
        peer_ = ready->substr(6);
      } catch (const CommError& error) {
        torch_.reset();
        fmt::print(stderr, "distdl: {} is left out: {}\n", name, error.what());
      }
  }

  /// Runs it on all ranks at once; the time until the last one is done.
  void time(int round, const char* name, const std::function<void()>& work) {
    if (progress_)
      progress_->now(round < 0 ? fmt::format("warm-up, {}", name)
                               : fmt::format("round {} of {}, {}", round + 1, arguments_.rounds, name));
    group_.all_gather("");
    Stopwatch watch;
    work();
    note(round, name, watch.seconds());
  }
  /// The slowest rank's.
  void note(int round, const char* name, double seconds) {
    double slowest = 0;
    for (const auto& text : group_.all_gather(fmt::format("{}", seconds))) slowest = std::max(slowest, std::stod(text));
    if (round >= 0) seconds_[name].push_back(slowest);
  }

  void measure(int round) {
    Step step(round + 2);
    time(round, "memcpy", [&] { std::memcpy(copy_.data(), state_.bytes().data(), state_.bytes().size()); });
    time(round, "save", [&] {
      saver_->save(step, state_.slices(), {{"round", std::to_string(round)}});
      saver_->wait();
    });
    note(round, "stall", saver_->outcomes().back().stall_seconds);
    RawFile raw(folder_.path() / fmt::format("raw{}", communicator_.rank()));
    time(round, "raw_write", [&] { raw.write(state_.bytes(), RawFile::Cache::used); });
    time(round, "raw_write_direct", [&] { raw.write(state_.bytes(), RawFile::Cache::passed); });
    raw.remove();
    measure_reading(round, checkpoint::open(folder_.path() / "checkpoints"));
    ask_torch(round);
  }

  /// Reads the same file, raw and restored, in turn. One read comes first, since disks have caches too, which the first
  /// one would fill for the second. All of it goes to the state's own memory: what memcpy fills is touched once a
  /// round, as snapshot buffers are, because memory at rest is slower to write on virtual machines.
  void measure_reading(int round, const checkpoint::Summary& saved) {
    const RawFile file(saved.folder / fmt::format("node{:04}.h5", communicator_.rank().value));
    const auto raw = [&] {
      drop_caches(saved.folder);
      time(round, "raw_read", [&] { file.read(state_.memory()); });
    };
    const auto restored = [&] {
      drop_caches(saved.folder);
      time(round, "restore", [&] { restore(saved); });
      require<InternalError>(crc32c(state_.bytes()) == checksum_, "{}",
                             "the restored state differs from the saved one");
    };
    drop_caches(saved.folder);
    file.read(state_.memory());
    if (round % 2 == 0) raw();
    restored();
    if (round % 2 == 0) return;
    raw();
    restore(saved);  // raw bytes begin with the file's head
  }

  void drop_caches(const fs::path& folder) {
    group_.all_gather("");
    for (const auto& file : fs::directory_iterator(folder)) drop_cache(file.path());
    group_.all_gather("");
  }

  void restore(const checkpoint::Summary& saved) {
    std::vector<checkpoint::Target> targets;
    auto* to = state_.memory().data();
    for (const auto& slice : state_.slices()) {
      targets.push_back({slice.name, slice.dtype, slice.shape, slice.box, to});
      to += kTensorBytes;
    }
    store_.read(saved, targets, checkpoint::PageCache::passed);  // each rank its own
  }

  void ask_torch(int round) {
    if (torch_)
      for (const char* what : {"save", "load"}) {
        torch_->write_line(what);
        auto answer = torch_->read_line(1200s);
        bool good = answer && answer->starts_with("times ");
        require<CommError>(good, "torch answered \"{}\"", answer.value_or("nothing"));
        if (round >= 0) seconds_[std::string("torch_") + what].push_back(std::stod(answer->substr(6)));
      }
    group_.all_gather("");
  }

  void print() const {
    double gib = static_cast<double>(state_.total()) / (1 << 30);
    fmt::print("{:.2f} GiB on {} ranks in \"{}\", {} rounds; median (best to worst)\n", gib, communicator_.size(),
               arguments_.dir.string(), arguments_.rounds);
    for (const auto& [name, values] : seconds_) {
      auto [best, worst] = std::minmax_element(values.begin(), values.end());
      fmt::print("{:<18}{:8.3f} s ({:.3f} to {:.3f}){:8.2f} GiB/s\n", name, median(values), *best, *worst,
                 gib / median(values));
    }
    for (const Ratio& ratio : kRatios)
      if (auto values = ratios(seconds_, ratio); !values.empty())
        fmt::print("{:<58}{:8.2f} ({:.2f} to {:.2f})\n", ratio.meaning, median(values), values.front(), values.back());
  }

  void print_json() const {
    nlohmann::ordered_json report{{"bytes", state_.total()},
                                  {"ranks", communicator_.size()},
                                  {"dir", arguments_.dir.string()},
                                  {"mode", arguments_.options.mode.name()},
                                  {"copy_threads", arguments_.options.copy_threads},
                                  {"write_threads", arguments_.options.write_threads},
                                  {"compression", arguments_.options.compression}};
    if (!peer_.empty()) report["peer"] = peer_;
    report["seconds"] = seconds_;
    for (const Ratio& ratio : kRatios)
      if (auto values = ratios(seconds_, ratio); !values.empty())
        report["ratios"][ratio.name] = {{"median", median(values)}, {"min", values.front()}, {"max", values.back()}};
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

  const CheckpointBenchArguments& arguments_;
  comm::Communicator& communicator_;
  bool first_;
  groups::CommunicatorGroup group_;
  BenchState state_;
  BenchFolder folder_;
  checkpoint::Store store_;
  std::optional<checkpoint::Saver> saver_;
  tensor::Buffer copy_;     ///< what memcpy fills
  std::uint32_t checksum_;  ///< checksum of the state
  std::unique_ptr<LineProcess> torch_;
  std::string peer_;
  Seconds seconds_;
  std::optional<WorkProgress> progress_;
};
}  // namespace

void add_bench_checkpoint(Command bench) {
  auto command = bench.add_subcommand(
      "checkpoint",
      "Time saves and restores, and memcpy and plain files for comparison; with --peers also those of PyTorch");
  auto a = std::make_shared<CheckpointBenchArguments>();
  a->local.ranks = 1;
  a->local.add_to(command);
  a->options.keep = 2;
  command.add_option("--size", a->size, "Bytes of the state of all ranks, such as 1G").show_default();
  command.add_option("--dir", a->dir, "Folder on the disk to measure, with space for five times the size")
      .show_default();
  command.add_option("--peers", a->peers, "Also measure: torch").list();
  command.add_option("--rounds", a->rounds, "Measured rounds, after one warm-up round").positive().show_default();
  command.add_option("--copy-threads", a->options.copy_threads, "Same as checkpoint.copy_threads").show_default();
  command.add_option("--write-threads", a->options.write_threads, "Same as checkpoint.write_threads").show_default();
  command.add_option("--compression", a->options.compression, "Same as checkpoint.compression").show_default();
  command.add_flag("--json", a->json, "Print JSON");
  command.examples(
      {{"distdl bench checkpoint --size 64M --dir /scratch --rounds 2", "Time saves and restores on a disk"}});
  command.callback([a] {
    const auto check = [&] {
      sizes_from(a->size);
      for (const auto& name : a->peers)
        require<UsageError>(name == "torch", "there is no peer \"{}\", only torch", name);
      checkpoint::check(a->options);
    };
    a->local.run(check, [&](comm::Communicator& communicator) { CheckpointBench(*a, communicator).run(); });
  });
}

}  // namespace distdl::app
