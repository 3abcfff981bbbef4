// SPDX-License-Identifier: Apache-2.0
// From gradients to parameters, without passes: each division of the update gives the bits of one rank that does all.
#include <cmath>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/model/models.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/sync/update.hpp>

namespace distdl::train {
namespace {
constexpr int kUpdates = 3;

class Updates : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.kernels.backend = "reference";
    recipe_.parallel.bucket_mib = 1e-6;  // each layer is a bucket
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .ema_decay = 0.9};
  }

  /// Parameters and their average after some steps, of which each rank writes what it has.
  struct Result {
    std::vector<float> parameters, average;
    bool operator==(const Result&) const = default;
  };
  Result after_steps(int ranks, const std::string& strategy) {
    recipe_.parallel.strategy = strategy;
    Result result;
    std::mutex mutex;
    world::run_threads(ranks, [&](world::World& world) {
      comm::Options options;
      options.shared_memory_ranks = shared_memory_ranks_;
      comm::run_connected(world, options, [&](comm::Communicator& communicator) {
        train(communicator, [&](const TrainingState& state, Update& update) {
          const std::lock_guard lock(mutex);
          shards_parameters_ = update.shards_parameters();
          scatters_ = update.scatters();
          gathers_ = update.blocks() != nullptr;
          slices_ = update.shard().size();
          take(state, update, result);
        });
      });
    });
    return result;
  }

  /// What the last update told of itself.
  bool shards_parameters_ = false, gathers_ = false, scatters_ = false;
  std::size_t slices_ = 0;

 private:
  void train(comm::Communicator& communicator, const std::function<void(const TrainingState&, Update&)>& take_result) {
    const parallel::Mesh mesh(communicator, {.data = communicator.size()});
    const auto backend = kernels::make_backend(recipe_.kernels);
    auto held = hold(model_of(recipe_, *open().training), recipe_.parallel, mesh, *backend, {});
    const auto plan = parallel::make_plan(recipe_.parallel, communicator.size());
    model::Network network(*backend, held.model, held.parts.front(), plan.microbatch_size, held.activations);
    const auto count = network.gradient_count();
    parallel::GradientSum sum(*backend, communicator, plan, count,
                              {.places = bucket_places(recipe_, mesh, held, network, *backend),
                               .bucket_mib = bucket_mib(recipe_.parallel, mesh, *backend, count)});
    model::Network* const networks[] = {&network};
    const auto update = make_update({recipe_, mesh, *backend, held, sum}, networks, plan);
    TrainingState state;
    allocate(state, *backend, held.tensors.layout, update->state_arenas(), update->shard(),
             update->shards_parameters());
    sum.allocate(update->reduction());
    update->allocate(state);
    begin_state(state, *backend, {[&](std::span<float> arena) { model::initialize(held.tensors, 1, arena); }, 1});
    update->share(state);
    for (int step = 0; step < kUpdates; ++step) do_step(state, plan.of(communicator.rank()), sum, *update, count);
    take_result(state, *update);
    communicator.barrier().wait();  // others may read what this rank has
  }
  data::Sources open() const { return data::open_sources(recipe_.data, 1, 1); }

  void do_step(TrainingState& state, comm::LeafRange own, parallel::GradientSum& sum, Update& update,
               std::size_t count) const {
    update.begin_step(parallel::Compression::none);
    if (auto* const blocks = update.blocks()) blocks->join_others();
    for (int m = own.first; m < own.first + own.count; ++m) {
      float* const gradients = sum.microbatch_arena();
      for (std::size_t i = 0; i < count; ++i)
        gradients[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(m) * 13) % 31) / 31 - 0.4f;
      if (auto* const blocks = update.blocks()) {
        if (m + 1 == own.first + own.count) sum.set_final(0);
        blocks->end_microbatch();
      }
      sum.add();
    }
    const auto prepare = [&] {
      update.prepare({0.01, state.step.value, state.updates, static_cast<int>(recipe_.parallel.microbatches), 1},
                     std::nullopt);
    };
    bool is_prepared = false;
    while (const auto* const bucket = sum.next_sum()) {
      if (!update.is_in_parts()) continue;
      if (!std::exchange(is_prepared, true)) prepare();
      update.apply(state, {bucket->first, bucket->end});
    }
    if (!is_prepared) prepare();
    update.adapt(state);
    if (!update.is_in_parts())
      for (const auto& part : update.parts()) update.apply(state, part);
    update.finish(state);
    state.step.value += 1;
    state.updates += 1;
  }

  static void take(const TrainingState& state, const Update& update, Result& result) {
    const auto copy = [&](const tensor::Buffer& memory, std::vector<float>& to) {
      const auto values = memory.as<float>();
      to.resize(values.size());
      if (!update.shards_parameters()) return std::ranges::copy(values, to.begin()), void();
      for (const auto& own : state.shard)
        std::ranges::copy(values.subspan(own.first, own.count()), to.begin() + static_cast<std::ptrdiff_t>(own.first));
    };
    copy(state.parameters, result.parameters);
    for (const auto& arena : state.optimizer)
      if (arena.what.kind == optim::StateArena::Kind::average) copy(arena.memory, result.average);
  }
};

TEST_F(Updates, OfSlicesGiveTheBitsOfAWholeOne) {
  for (const char* optimizer : {"sgd", "adamw", "lamb"}) {
    recipe_.optim.name = optimizer;
    const auto whole = after_steps(1, "replicas");
    EXPECT_EQ(slices_, 0u);
    for (const auto value : whole.parameters) ASSERT_TRUE(std::isfinite(value));
    for (const char* strategy : {"replicas", "sharded", "sharded_gradients", "sharded_parameters"})
      for (const int on_one_node : {0, 1}) {
        shared_memory_ranks_ = on_one_node;
        EXPECT_EQ(after_steps(3, strategy), whole) << optimizer << ", " << strategy << ", " << on_one_node;
      }
  }
}

TEST_F(Updates, AreChosenByTheStrategyAndWhereTheRanksAre) {
  const auto kind = [this](int ranks, const char* strategy, int shared_memory_ranks) {
    shared_memory_ranks_ = shared_memory_ranks;
    after_steps(ranks, strategy);
    return fmt::format("{} slices{}{}{}", slices_, scatters_ ? ", scatters" : "",
                       shards_parameters_ ? ", shards parameters" : "", gathers_ ? ", gathers" : "");
  };
  EXPECT_EQ(kind(2, "replicas", 0), "0 slices");
  EXPECT_EQ(kind(1, "sharded_parameters", 0), "0 slices");
  const auto sharded = kind(2, "sharded", 0);
  EXPECT_NE(sharded, "0 slices, scatters");
  EXPECT_EQ(kind(2, "sharded", 1), sharded);
  EXPECT_TRUE(sharded.ends_with(" slices, scatters")) << sharded;
  EXPECT_EQ(kind(2, "sharded_parameters", 0), sharded + ", shards parameters");
  EXPECT_EQ(kind(2, "sharded_parameters", 1), sharded + ", shards parameters, gathers");
}
}  // namespace
}  // namespace distdl::train
