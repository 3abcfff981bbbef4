// SPDX-License-Identifier: Apache-2.0
// parallel.strategy = "auto": what the ranks choose, and that no byte of a run depends on it.

#include <cmath>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/model/parts.hpp>

namespace distdl::forecast {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kEnough = std::uint64_t{64} << 30;

/// Ranks as threads, on one node with so much memory.
class Automatic : public train::Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.model = {.name = "mlp", .hidden = {256, 256}};
    recipe_.optim = {.name = "adamw"};
    recipe_.kernels.backend = "reference";
    recipe_.train.steps = 6;
    recipe_.parallel = {.strategy = "auto", .microbatches = 12, .microbatch_size = 2};
    recipe_.checkpoint.mode = checkpoint::SaveMode::sync;
    recipe_.checkpoint.every = 2;
    decide_ = [this](comm::Communicator& communicator) {
      auto decision = decide(recipe_, communicator, memory_, [&](Machine& machine) {
        EXPECT_EQ(communicator.rank(), Rank(0)) << "whose figures count for all";
        add_figures(machine);
      });
      const std::lock_guard lock(mutex_);
      decisions_.push_back(decision.product);
      stage_costs_.push_back(decision.stage_costs);
      reason_ = decision.reason;
      return decision.recipe;
    };
  }
  /// Of a node on which so many ranks run.
  double bytes_of(int ranks, const Product& product) {
    const auto work = workload_of(recipe_);
    return forecast_product(basis_of(recipe_, work, machine_of(ranks)), product).node_bytes;
  }
  Machine machine_of(int ranks) {
    Machine machine;
    machine.ranks_per_node = ranks;
    machine.memory_bytes = memory_;
    add_figures(machine);
    return machine;
  }
  void add_figures(Machine& machine) const {
    machine.calibration = calibration_;
    machine.microbatch_seconds = microbatch_seconds_;
    machine.not_of_these = not_of_these_;
    machine.limits = limits_;
  }
  /// What the ranks choose, without training.
  std::string chosen(int ranks) {
    auto product = chosen_after_a_loss(ranks);
    expect_plan_says_the_same(ranks);
    return product;
  }
  /// The same where no job may begin.
  std::string chosen_after_a_loss(int ranks) {
    decisions_.clear();
    stage_costs_.clear();
    world::run_threads(ranks, [&](world::World& world) {
      const auto communicator = comm::Communicator::connect(world, {});
      decide_(*communicator);
      communicator->close();
    });
    EXPECT_THAT(decisions_, Each(decisions_.front())) << "all ranks choose the same";
    EXPECT_THAT(stage_costs_, Each(stage_costs_.front()));
    EXPECT_EQ(decisions_.size(), static_cast<std::size_t>(ranks));
    return decisions_.front();
  }
  void expect_plan_says_the_same(int ranks) {
    const auto planned = forecast(recipe_, workload_of(recipe_), machine_of(ranks));
    ASSERT_TRUE(planned.automatic);
    EXPECT_EQ(name_of(planned.automatic->product), decisions_.front());
    EXPECT_EQ(planned.automatic->reason, reason_);
    EXPECT_EQ(name_of(planned.products[planned.own.value()].product), decisions_.front());
  }
  std::string refused(int ranks) {
    try {
      chosen(ranks);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::config);
      return error.what();
    }
    return "not refused";
  }
  /// All of it takes this share of what the simplest product needs.
  void give(int ranks, double share, const Product& product) {
    memory_ = static_cast<std::uint64_t>(std::llround(share * bytes_of(ranks, product)));
  }

  std::uint64_t memory_ = kEnough;
  std::optional<Calibration> calibration_;
  double microbatch_seconds_ = 0;
  std::string not_of_these_;
  train::ProcessLimits limits_;
  std::mutex mutex_;
  std::vector<std::string> decisions_;
  std::vector<std::vector<double>> stage_costs_;
  std::string reason_;
};

TEST_F(Automatic, TakesTheSimplestThatFitsWhereNothingWasMeasured) {
  EXPECT_EQ(chosen(4), "4x1x1 replicas");
  EXPECT_THAT(reason_, AllOf(HasSubstr("fits, with 0."), HasSubstr("of a node's 64 GiB"), HasSubstr("the simplest of"),
                             HasSubstr("has not measured this model and the network")));
  const double replicas = bytes_of(4, {{4}}), sharded = bytes_of(4, {{4}, parallel::Strategy::sharded});
  memory_ = static_cast<std::uint64_t>((replicas + sharded) / 2);
  EXPECT_EQ(chosen(4), "4x1x1 sharded");
  EXPECT_EQ(chosen(1), "1x1x1 replicas");
  memory_ = kEnough;
  const auto work = workload_of(recipe_);
  const auto data_of = [&](const Product& product) {
    return forecast_product(basis_of(recipe_, work, machine_of(4)), product).data_bytes;
  };
  limits_.data = static_cast<std::uint64_t>((data_of({{4}}) + data_of({{4}, parallel::Strategy::sharded})) / 2);
  EXPECT_EQ(chosen(4), "4x1x1 sharded") << "by a limit of each process";
  EXPECT_THAT(reason_, HasSubstr("that RLIMIT_DATA leaves to a process"));
}

TEST_F(Automatic, ChangesNoByteAlsoWithOtherRanksAndProducts) {
  recipe_.parallel.strategy = "replicas";
  const auto decide = std::exchange(decide_, nullptr);
  const auto expected = digest_of(1, "whole");
  recipe_.parallel.strategy = "auto";
  decide_ = decide;
  memory_ = static_cast<std::uint64_t>((bytes_of(4, {{4}}) + bytes_of(4, {{4}, parallel::Strategy::sharded})) / 2);
  EXPECT_EQ(run(4, "cut", 3), train::Outcome::stopped);
  EXPECT_EQ(decisions_.front(), "4x1x1 sharded");
  decisions_.clear();
  EXPECT_EQ(run(3, "cut"), train::Outcome::finished);  // as after the loss of a rank, whose memory is free
  EXPECT_EQ(decisions_.front(), "3x1x1 replicas");
  EXPECT_EQ(digest("cut"), expected);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(4));
}

TEST_F(Automatic, TakesTheFastestWhereAllWasMeasured) {
  calibration_.emplace().costs.emplace();
  MeasuredWork measured;
  measured.identity = identity_of_work(recipe_, workload_of(recipe_));
  measured.work = {
      .forward = 0.01, .backward = 0.02, .add = 0.001, .update = 0.5, .load = 0.001};  // which shards divide
  calibration_->add(measured);
  EXPECT_THAT(chosen(4), HasSubstr("4x1x1 sharded"));
  EXPECT_THAT(reason_, HasSubstr("is the fastest of"));
  calibration_->costs.reset();
  EXPECT_EQ(chosen(4), "4x1x1 replicas");
  EXPECT_THAT(reason_, HasSubstr("has not measured the network"));
  calibration_->costs.emplace();
  calibration_->works.clear();
  chosen(4);
  EXPECT_THAT(reason_, HasSubstr("has not measured this model"));
  microbatch_seconds_ = 1;
  chosen(4);
  EXPECT_THAT(reason_, HasSubstr("is the fastest of"));
  calibration_->add(measured);
  microbatch_seconds_ = 0;
  not_of_these_ = "of other nodes";
  EXPECT_EQ(chosen(4), "4x1x1 replicas");
  EXPECT_THAT(reason_, HasSubstr("has not measured this model and the network (of other nodes)"));
}

/// In which the layers from each possible begin of a stage to the next take so many seconds.
MeasuredWork work_with(const train::Recipe& recipe, const Workload& work, const std::vector<double>& seconds) {
  MeasuredWork measured;
  measured.identity = identity_of_work(recipe, work);
  const auto firsts = model::first_layers(work.model);
  for (std::size_t i = seconds.size(); i-- > 0;) {
    measured.work.backward += seconds[i];
    std::size_t place = work.tensors.layout.size();
    for (const auto& tensor : work.tensors.tensors)
      if (tensor.layer >= firsts[i]) place = std::min(place, tensor.view.offset);
    measured.work.finals.push_back({place, measured.work.backward});
  }
  measured.work.forward = measured.work.backward / 2;
  return measured;
}

TEST_F(Automatic, DividesPipelinesByMeasuredTimesAsThePlanSays) {
  const auto work = workload_of(recipe_);
  recipe_.parallel.pipeline_ranks = 2;
  const std::vector seconds{0.25, 0.25, 2.0};
  const auto stages_of_plan = [&] {
    const auto planned = forecast(recipe_, work, machine_of(4));
    return planned.products[planned.own.value()].stages;
  };
  const auto choose_stages = [&](const char* strategy) {
    recipe_.parallel.strategy = strategy;
    EXPECT_EQ(chosen_after_a_loss(4), "2x2x1 replicas");
    EXPECT_THAT(reason_, HasSubstr("; " + text_of(stages_of_plan())));
  };
  for (const char* strategy : {"auto", "replicas"}) {
    calibration_.reset();
    not_of_these_ = "";
    recipe_.parallel.stage_layers = {};
    choose_stages(strategy);
    EXPECT_THAT(reason_, HasSubstr("by counted multiplications and values"));
    EXPECT_THAT(stage_costs_, Each(IsEmpty()));
    const auto counted = stages_of_plan().layers;
    calibration_.emplace().kind = {"quick", 4, "reference"};
    calibration_->add(work_with(recipe_, work, seconds));
    choose_stages(strategy);
    EXPECT_THAT(reason_, HasSubstr("parallel.stage_layers = [2, 1], by times measured on 4 x quick, reference"));
    EXPECT_THAT(stage_costs_, Each(seconds));
    EXPECT_NE(counted, stages_of_plan().layers);
    recipe_.parallel.stage_layers = counted;
    choose_stages(strategy);
    EXPECT_THAT(reason_, HasSubstr(", by hand"));
    recipe_.parallel.stage_layers = {};
    not_of_these_ = "of other nodes";
    choose_stages(strategy);
    EXPECT_EQ(stages_of_plan().layers, counted);
    EXPECT_THAT(stage_costs_, Each(IsEmpty()));
  }
}

TEST_F(Automatic, KeepsWhatTheJobFileSays) {
  recipe_.parallel.pipeline_ranks = 2;
  EXPECT_EQ(chosen(4), "2x2x1 replicas");
  EXPECT_EQ(chosen(3), "1x3x1 replicas") << "the nearest that is possible, as without auto";
  recipe_.parallel.recompute = parallel::Recompute::blocks;
  EXPECT_EQ(chosen(4), "2x2x1 replicas, blocks");
  recipe_.parallel.pipeline_ranks = 1;
  recipe_.parallel.recompute = parallel::Recompute::none;
  for (const auto& product : automatic_products(recipe_, workload_of(recipe_).model, 4))
    EXPECT_FALSE(product.recomputes) << name_of(product);
}

TEST_F(Automatic, KeepsRanksThatShareSequences) {
  use_text();
  recipe_.model.layers = 4;
  recipe_.parallel.context_chunks = recipe_.parallel.context_ranks = 2;
  EXPECT_EQ(chosen(4), "2x1x1x2 replicas");
  EXPECT_EQ(chosen_after_a_loss(3), "3x1x1 replicas") << "the nearest that is possible, as without auto";
  recipe_.parallel.pipeline_ranks = 2;
  EXPECT_EQ(chosen(6), "2x3x1 replicas");
}

TEST_F(Automatic, ChoosesOnlyWhatTheJobCanDo) {
  recipe_.train.audit_every = 2;  // which compares what all ranks hold
  for (const auto& product : automatic_products(recipe_, workload_of(recipe_).model, 4))
    EXPECT_EQ(product.strategy, parallel::Strategy::replicas);
}

TEST_F(Automatic, ChoosesReplicasForGpusAlsoWhereThereAreNone) {
  recipe_.kernels.backend = "cuda";
  const auto model = workload_of(recipe_).model;
  const auto products = products_of(recipe_, model, 4);  // of which "distdl plan" tells the time
  const auto count = [&](parallel::Strategy strategy) {
    return std::ranges::count_if(products, [&](const Product& product) { return product.strategy == strategy; });
  };
  EXPECT_GT(count(parallel::Strategy::sharded_parameters), 0);
  const auto choice = choice_on_device(recipe_, model, 4);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->reason, "4x1x1 replicas, because forecasts do not know the memory of GPUs");
  EXPECT_EQ(chosen(4), "4x1x1 replicas");
}

TEST_F(Automatic, UsesMoreRanksThanMicrobatchesByPipelines) {
  recipe_.parallel.microbatches = 2;
  EXPECT_EQ(chosen(4), "2x2x1 replicas");
  recipe_.parallel.microbatches = 1;
  EXPECT_THAT(refused(4), AllOf(HasSubstr("1 nodes of 4 ranks are 4 ranks, but a step has 1 microbatches"),
                                HasSubstr("the nearest choice is 1 node of 1 rank, or"), Not(HasSubstr("--"))));
}

TEST_F(Automatic, NamesTheNearestChoiceWhereNothingFits) {
  recipe_.parallel.pipeline_ranks = 2;
  give(2, 0.9, {{1, 2, 1}, parallel::Strategy::replicas, true});
  EXPECT_THAT(refused(2), AllOf(HasSubstr("none of 2 products fits"),
                                AnyOf(HasSubstr("the nearest choice is 1 rank on"),
                                      HasSubstr("the nearest choice is parallel.strategy = \"sharded_parameters\", "
                                                "parallel.pipeline_ranks = 1"))));
  recipe_.parallel.pipeline_ranks = 1;
  give(1, 0.5, {{1}});
  EXPECT_THAT(refused(1), HasSubstr("the nearest choice is"));
  recipe_.parallel.recompute = parallel::Recompute::none;
  recipe_.model = {.name = "mlp", .hidden = {256, 256, 256, 256, 256, 256}};
  recipe_.parallel.microbatch_size = 256;
  memory_ = static_cast<std::uint64_t>((bytes_of(1, {{1}}) + bytes_of(1, {{1}, "replicas", true})) / 2);
  EXPECT_THAT(refused(1), HasSubstr("parallel.recompute = \"blocks\""));
  recipe_.parallel.strategy = "replicas";
  EXPECT_FALSE(forecast(recipe_, workload_of(recipe_), machine_of(1)).automatic) << "which that job does not ask for";
  recipe_.parallel.strategy = "auto";
  memory_ = 1 << 20;
  EXPECT_THAT(refused(1), HasSubstr("a smaller model, or nodes with more memory"));
}
}  // namespace
}  // namespace distdl::forecast
