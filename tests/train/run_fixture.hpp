// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/pace.hpp"
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>
#include <distdl/data/shapes.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/train/balance/microbatch_rule.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/saves/save_destinations.hpp>
#include <distdl/train/server/range_rule.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::train {

/// Remembers what a run told.
struct Recorder final : records::Observer {
  void on(const records::Record& record) override {
    std::apply([&record](auto&... lists) { (add(lists, record), ...); },
               std::tie(products, started, steps, shares, ranges, disturbed, evaluated, deadlines, stopped, finished,
                        saved, kept, unkept, skipped, audited, corrupted));
    if (const auto* done = std::get_if<records::StepDone>(&record); done && after_step) after_step(done->step);
  }
  template <class Kind>
  static void add(std::vector<Kind>& list, const records::Record& record) {
    if (const auto* found = std::get_if<Kind>(&record)) list.push_back(*found);
  }
  std::vector<records::ProductChosen> products;
  std::vector<records::Started> started;
  std::vector<records::StepDone> steps;
  std::vector<records::SharesKnown> shares;
  std::vector<records::RangesKnown> ranges;
  std::vector<records::RanksDisturbed> disturbed;
  std::vector<records::Evaluated> evaluated;
  std::vector<records::DeadlineKnown> deadlines;
  std::vector<records::Stopped> stopped;
  std::vector<records::Finished> finished;
  std::vector<records::CheckpointSaved> saved;
  std::vector<records::SnapshotKept> kept;
  std::vector<records::SnapshotFailed> unkept;
  std::vector<records::SaveSkipped> skipped;
  std::vector<records::Audited> audited;
  std::vector<records::Corrupted> corrupted;
  std::function<void(Step)> after_step;
};

/// Answers the questions of a run by functions that a test sets; one that is not set by the default.
struct TestHost final : Host {
  std::optional<std::string> stop_request() override {
    return at_stop_request ? at_stop_request() : Host::stop_request();
  }
  bool stop_is_pending() override { return at_stop_is_pending ? at_stop_is_pending() : Host::stop_is_pending(); }
  void between_steps(const std::function<bool()>& is_saving) override {
    if (at_between_steps) at_between_steps(is_saving);
  }
  bool was_suspended() override { return is_suspended; }
  bool follows_end_of_job() override { return at_end_of_job != nullptr; }
  std::optional<std::chrono::system_clock::time_point> end_of_job() override { return at_end_of_job(); }
  std::optional<double> recorded_loss(Step step) override {
    return at_recorded_loss ? at_recorded_loss(step) : Host::recorded_loss(step);
  }
  std::function<std::optional<std::string>()> at_stop_request;
  std::function<bool()> at_stop_is_pending;
  std::function<void(const std::function<bool()>& is_saving)> at_between_steps;
  std::function<std::optional<std::chrono::system_clock::time_point>()> at_end_of_job;
  std::function<std::optional<double>(Step)> at_recorded_loss;
  bool is_suspended = false;  ///< before each step
};

class Run : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("run_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    data::make_shapes({.samples = 330, .size = 12, .classes = 4, .seed = 5}, set(), Overwrite::refuse);
    recipe_.data.train = set().string();
    recipe_.data.holdout = 50;
    recipe_.model = {.name = "mlp", .hidden = {16}, .batch_norm = true};
    recipe_.parallel = {.microbatches = 12, .microbatch_size = 3};
    recipe_.train.epochs = 2;
    recipe_.checkpoint = {.every = 5, .keep = 2};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path set() const { return folder_ / "shapes.h5"; }

  /// Runs on `ranks` threads in the run folder `name`. If `stop_at` is given, rank `stopper` is asked to stop there.
  Outcome run(int ranks, const std::string& name, int stop_at = -1, int stopper = 0) {
    std::mutex mutex;
    std::optional<Outcome> outcome;
    world::run_threads(ranks, [&](world::World& world) {
      comm::Options options;
      options.timeout_seconds = paced(20);
      options.shared_memory_ranks = shared_memory_ranks_;
      auto communicator = comm::Communicator::connect(world, options);
      Setting setting{folder_ / name, {"local", 0, 0, name}, {}, {}};
      TestHost host;
      setting.hooks.files = files_;
      setting.snapshots = snapshots_;
      if (rank_times_)
        setting.hooks.rank_times = [this, rank = world.rank()](Step step, const auto& plan) {
          return rank_times_(rank, step, plan);
        };
      if (answer_seconds_)
        setting.hooks.answer_seconds = [this, rank = world.rank()](Step step, const auto& ranges) {
          return answer_seconds_(rank, step, ranges);
        };
      setting.stage_costs = stage_costs_;
      setting.resume_below = resume_below_;
      setting.hooks.bit_flip = bit_flip_;
      setting.devices_per_rank = devices_;
      setting.trace = trace_;
      host.at_recorded_loss = recorded_loss_;
      if (has_node_names_) setting.node = fmt::format("n{}", world.rank());
      if (stop_is_pending_)
        host.at_stop_is_pending = [this, rank = world.rank().value] { return stop_is_pending_(rank); };
      int asked = 0, steps = 0;
      if (world.rank().value == stopper && stop_at >= 0)
        host.at_stop_request = [&]() -> std::optional<std::string> {
          if (++asked > stop_at) return "test";
          return std::nullopt;
        };
      if (at_look_)
        host.at_stop_request = [this, rank = world.rank().value]() -> std::optional<std::string> {
          at_look_(rank);
          return std::nullopt;
        };
      if (crash_at_ >= 0) {
        host.at_stop_request = [&]() -> std::optional<std::string> {
          if (++steps > crash_at_) throw std::runtime_error("a crash");
          return std::nullopt;
        };
        host.at_between_steps = [&](const std::function<bool()>& is_saving) {
          const Stopwatch watch;  // no save finds another under way, which would skip it
          while (awaits_saves_ && is_saving() && watch.seconds() < paced(20))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          if (!awaits_saves_) std::this_thread::sleep_for(paced(std::chrono::milliseconds(30)));
        };
      }
      records::Observer silent;
      const Recipe recipe = decide_ ? decide_(*communicator) : recipe_;
      std::optional<Outcome> mine;
      try {
        mine = train::run(recipe, setting, host, *communicator, world.rank().value == 0 ? recorder_ : silent);
      } catch (const std::exception& error) {
        if (aborts_) communicator->abort(error.what(), exit_code_of(error));
        throw;
      }
      communicator->close();
      std::lock_guard lock(mutex);
      EXPECT_TRUE(!outcome || *outcome == mine);
      outcome = mine;
    });
    return *outcome;
  }
  /// The extent along ranks of the residuals in the newest checkpoint; 0: it has none.
  std::int64_t ranks_of_residuals(const std::string& name) {
    for (const auto& tensor : checkpoint::open(folder_ / name).tensors)
      if (tensor.name.starts_with("residual/")) return tensor.shape[0];
    return 0;
  }
  std::string digest_of(int ranks, const std::string& name) {
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    return digest(name);
  }
  std::string digest(const std::string& name) { return checkpoint::digest(checkpoint::open(folder_ / name)); }
  void expect_same_bytes_when_stopped_and_resumed() {
    ASSERT_EQ(run(2, "whole"), Outcome::finished);
    EXPECT_EQ(run(1, "cut", 4), Outcome::stopped);
    EXPECT_EQ(run(3, "cut", 3), Outcome::stopped);
    EXPECT_EQ(run(2, "cut"), Outcome::finished);
    EXPECT_EQ(digest("cut"), digest("whole"));
  }
  std::string error_of(int ranks, const std::string& name) {
    try {
      run(ranks, name);
    } catch (const Error& error) {
      code_ = error.exit_code();
      return error.what();
    }
    return "no error";
  }

  std::vector<std::string> buffers_of(const std::string& name) {
    checkpoint::Store store(folder_ / name, {});
    checkpoint::SingleProcessGroup alone;
    store.take(alone, {"local", 0, 0, ""});
    return checkpoint::buffers_of(run_name(store));
  }
  /// As if the node of a rank had been switched off.
  void forget_memory_of(const std::string& name, int rank) {
    const auto own = fmt::format("-{}-", rank);
    for (const auto& buffer : buffers_of(name))
      if (buffer.substr(0, buffer.rfind('-') + 1).ends_with(own)) {
        EXPECT_TRUE(checkpoint::remove_orphan(buffer));
      }
  }
  /// As if the nodes had been switched off.
  void forget_memory(const std::string& name) {
    for (const auto& buffer : buffers_of(name)) EXPECT_TRUE(checkpoint::remove_orphan(buffer));
  }
  /// Changes the state in the snapshots that lie in memory.
  void change_snapshots(const std::string& name, const std::function<void(checkpoint::State&)>& change) {
    for (const auto& buffer : buffers_of(name)) {
      rewrite(checkpoint::SnapshotMemory::open(buffer).bytes(), change);
      EXPECT_TRUE(checkpoint::remove_orphan(buffer));
    }
  }

  static void rewrite(std::span<const std::byte> buffer, const std::function<void(checkpoint::State&)>& change) try {
    auto snapshot = checkpoint::open_snapshot(buffer);
    change(snapshot.state);
    auto copy = checkpoint::SnapshotMemory::create(snapshot.label.run, snapshot.label.rank,
                                                   checkpoint::buffer_bytes(snapshot.slices, snapshot.state));
    checkpoint::fill_buffer(copy.writable(), snapshot.label, snapshot.slices, snapshot.state);
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incomplete) << error.what();  // it was never filled
  }
  /// A small GPT on a text that repeats itself, 600 letters long.
  void use_text() {
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 600; ++i) text << static_cast<char>('a' + i % 5);
    text.close();
    data::import_text(folder_ / "text", folder_ / "text.h5", Overwrite::refuse);
    recipe_.data.train = (folder_ / "text.h5").string();
    recipe_.model = {.name = "gpt", .layers = 1, .width = 16, .heads = 2, .context = 10, .dropout = 0.1};
  }

  std::filesystem::path folder_;
  Recipe recipe_;
  Recorder recorder_;
  ExitCode code_ = ExitCode::ok;
  FileSystem* files_ = nullptr;
  checkpoint::SnapshotUse snapshots_ = checkpoint::SnapshotUse::newest;
  std::function<bool(int rank)> stop_is_pending_;  ///< during evaluations
  std::vector<double> stage_costs_;
  std::function<void(int rank)> at_look_;  ///< where a rank looks for a request to stop
  std::optional<Step> resume_below_;
  std::function<RankTimes(Rank, Step, const parallel::MicrobatchPlan&)> rank_times_;              ///< instead of clocks
  std::function<AnswerSeconds(Rank, Step, const std::vector<optim::Elements>&)> answer_seconds_;  ///< the same
  std::optional<BitFlip> bit_flip_;
  int devices_ = 1;  ///< of each rank
  std::optional<TraceSetting> trace_;
  std::function<Recipe(comm::Communicator&)> decide_;  ///< what each rank takes in place of `recipe_`
  std::function<std::optional<double>(Step)> recorded_loss_;
  bool has_node_names_ = false;
  int shared_memory_ranks_ = 0;  ///< see comm::Options; 1: as if each rank had a node of its own
  int crash_at_ = -1;            ///< steps of a start after which all ranks throw
  bool awaits_saves_ = true;     ///< with crash_at_: a step begins when the last save is done
  bool aborts_ = false;          ///< a rank that throws tells the others, as a process does
};

}  // namespace distdl::train
