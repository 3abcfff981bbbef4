// SPDX-License-Identifier: Apache-2.0
// Optimizers in a run: what they keep, and what a restart makes of it.
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Kind = optim::StateArena::Kind;

/// With all that can depend on order: trust ratios, a norm that clips, an average.
optim::Options recipe_of(const std::string& name) {
  optim::Options options{.name = name, .weight_decay = 0.01, .warmup_steps = 3, .clip_norm = 0.6, .ema_decay = 0.9};
  if (name == "adamw" || name == "lamb") options.learning_rate = 0.01;
  return options;
}

class Optimizers : public Run, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.optim = recipe_of(GetParam());
  }
};

TEST_P(Optimizers, GiveTheSameBytesForEveryNumberOfRanks) {
  ASSERT_EQ(run(1, "on1"), Outcome::finished);
  int clipped = 0;
  for (const auto& step : recorder_.steps) {
    ASSERT_TRUE(step.gradient_norm);
    clipped += *step.gradient_norm > recipe_.optim.clip_norm;
  }
  EXPECT_GT(clipped, 0) << "else the test shows less than it says";
  for (int ranks : {2, 3}) {
    auto name = "on" + std::to_string(ranks);
    ASSERT_EQ(run(ranks, name), Outcome::finished);
    EXPECT_EQ(digest(name), digest("on1")) << ranks << " ranks";
  }
  for (std::size_t i = 16; i < recorder_.steps.size(); ++i)
    EXPECT_EQ(recorder_.steps[i].gradient_norm, recorder_.steps[i - 16].gradient_norm);
}

TEST_P(Optimizers, GiveTheSameBytesWhenStoppedAndResumed) {
  expect_same_bytes_when_stopped_and_resumed();
}

TEST_P(Optimizers, LearnSomething) {
  recipe_.train.epochs = 40;
  recipe_.checkpoint.every = 0;
  if (GetParam() == "lars") recipe_.optim.learning_rate = 4;
  run(2, "learns");
  EXPECT_GT(recorder_.evaluated.back().accuracy, 0.45) << "of 4 classes";
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& rule : optim::known_rules()) names.push_back(rule.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Each, Optimizers, ::testing::ValuesIn(known_names()),
                         [](const auto& each) { return each.param; });

TEST_F(Run, WithoutClippingNoNormIsReported) {
  run(1, "plain");
  for (const auto& step : recorder_.steps) EXPECT_FALSE(step.gradient_norm);
}

TEST_F(Run, TheAverageIsEvaluatedAndTrainingDoesNotMind) {
  run(2, "plain");
  auto losses = [&] {
    std::vector<double> all;
    for (const auto& step : recorder_.steps) all.push_back(*step.loss);
    return all;
  };
  const auto plain = losses();
  const auto evaluated = recorder_.evaluated;
  recorder_ = {};
  recipe_.optim.ema_decay = 0.9;
  run(2, "averaged");
  EXPECT_EQ(losses(), plain);
  ASSERT_THAT(evaluated, SizeIs(2));
  ASSERT_THAT(recorder_.evaluated, SizeIs(2));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NE(recorder_.evaluated[i].loss, evaluated[i].loss);
  auto names = checkpoint::open(folder_ / "averaged").tensors;
  EXPECT_EQ(std::ranges::count_if(names, [](auto& tensor) { return tensor.name.starts_with("average/"); }),
            std::ranges::count_if(names, [](auto& tensor) { return tensor.name.starts_with("parameter/"); }));
}

TEST_F(Run, ARestartWithAnotherOptimizerIsRefusedUnlessPartsWillDo) {
  recipe_.optim.name = "adamw";
  recipe_.optim.learning_rate = 0.01;
  EXPECT_EQ(run(2, "changed", 4), Outcome::stopped);
  for (const char* other : {"sgd", "lars", "lamb"}) {  // lamb's moments have the same names
    recipe_.optim.name = other;
    EXPECT_THAT(error_of(2, "changed"),
                AllOf(HasSubstr("was trained with optim.name = \"adamw\""),
                      HasSubstr("says \"" + recipe_.optim.name + "\""), HasSubstr("--partial")));
    EXPECT_EQ(code_, ExitCode::incompatible);
  }
  recipe_.optim.name = "sgd";
  recipe_.checkpoint.partial = true;
  EXPECT_EQ(run(2, "changed"), Outcome::finished);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(5));
}

/// A state that a checkpoint is made of or restored to, on one rank.
class Restart : public ::testing::Test {
 protected:
  struct Side {
    Side(Identity identity, const std::vector<optim::StateArena>& arenas, comm::Communicator& communicator,
         groups::CommunicatorGroup& group, checkpoint::Store& store)
        : tensors(model::tensors_of(model::describe_model({.name = "mlp", .hidden = {8}}, {1, 6, 6}, 4))),
          backend(kernels::make_backend({.backend = "reference"})),
          checkpointer(*backend, communicator, group, store, tensors, std::move(identity)) {
      allocate(state, *backend, tensors.layout, arenas);
    }
    std::span<float> optimizer(std::size_t index) { return state.optimizer.at(index).memory.as<float>(); }
    model::ModelTensors tensors;
    std::unique_ptr<kernels::Backend> backend;
    StateCheckpointer checkpointer;
    TrainingState state;
  };
  using Arenas = std::vector<optim::StateArena>;

  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("restart_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Saves step 7 with the arenas `saved` and the state `told` beside the identity, and restores.
  void carry(const Identity& identity, const Arenas& saved, const std::function<void(checkpoint::State&)>& change,
             const Identity& wanted_identity, const Arenas& wanted, bool partial,
             const std::function<void(Side&, Side&)>& look) {
    world::run_threads(1, [&](world::World& world) {
      comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
        groups::CommunicatorGroup group(communicator, 20);
        checkpoint::Store store(folder_, {});
        store.take(group, {"local", 0, 0, "test"});
        Side before(identity, saved, communicator, group, store);
        Side after(wanted_identity, wanted, communicator, group, store);
        auto values = before.state.parameters.as<float>();
        std::iota(values.begin(), values.end(), 1.0f);
        for (std::size_t i = 0; i < saved.size(); ++i)
          std::iota(before.optimizer(i).begin(), before.optimizer(i).end(), 1e5f * static_cast<float>(i + 1));
        before.state.step = Step(7);
        before.state.updates = 5;
        auto part = before.checkpointer.part_of(before.state);
        change(part.state);
        store.save(group, before.state.step, part.slices, part.state);
        StartValues start{[](std::span<float> arena) { std::ranges::fill(arena, 0.25f); }, 32};
        ASSERT_TRUE(after.checkpointer.restore(after.state, nullptr, partial ? &start : nullptr));
        look(before, after);
      });
    });
  }
  static std::vector<float> tensor(Side& side, std::span<float> arena, const char* name) {
    const auto* view = side.tensors.layout.find(name);
    auto values = arena.subspan(view->offset, view->count);
    return {values.begin(), values.end()};
  }

  std::filesystem::path folder_;
  const Arenas momentum_{{"momentum", Kind::moment}};
  const Arenas adam_{{"first_moment", Kind::moment}, {"second_moment", Kind::moment}};
};

TEST_F(Restart, ACheckpointFromBeforeOtherOptimizersIsAnSgds) {
  auto as_it_was = [](checkpoint::State& state) {
    state.erase("optim.name");
    state.erase("updates");
  };
  const Identity old{{"optim.momentum", "0.9"}};
  carry(old, momentum_, as_it_was, {{"optim.name", "sgd"}}, momentum_, false, [](Side& before, Side& after) {
    EXPECT_EQ(tensor(after, after.optimizer(0), "fc1.weight"), tensor(before, before.optimizer(0), "fc1.weight"));
    EXPECT_EQ(after.state.updates, 7);
  });
  try {
    carry(old, momentum_, as_it_was, {{"optim.name", "adamw"}}, adam_, false, [](Side&, Side&) {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incompatible);
    EXPECT_THAT(error.what(), HasSubstr("was trained with optim.name = \"sgd\", but the job file says \"adamw\""));
  }
}

TEST_F(Restart, ACheckpointFromBeforeAKeyWasSavedIsTakenWithAWord) {
  const Identity now{{"data.crop", "2"}, {"data.digest", "0123456789abcdef"}, {"optim.name", "sgd"}};
  testing::internal::CaptureStderr();
  carry(
      {{"optim.name", "sgd"}}, momentum_, [](checkpoint::State&) {}, now, momentum_, false,
      [](Side&, Side& after) { EXPECT_EQ(after.state.step, Step(7)); });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("does not contain data.crop, data.digest"));
}

TEST_F(Restart, ACheckpointThatIsNotFiniteGivesWayToTheOneBefore) {
  world::run_threads(1, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      groups::CommunicatorGroup group(communicator, 20);
      checkpoint::Store store(folder_, {});
      store.take(group, {"local", 0, 0, "test"});
      Side side({}, momentum_, communicator, group, store);
      for (std::int64_t step : {5, 7}) {
        if (step == 7) side.optimizer(0)[3] = std::numeric_limits<float>::infinity();
        side.state.step = Step(step);
        auto part = side.checkpointer.part_of(side.state);
        store.save(group, side.state.step, part.slices, part.state);
      }
      ASSERT_TRUE(side.checkpointer.restore(side.state));
      EXPECT_EQ(side.state.step, Step(5));
      EXPECT_EQ(checkpoint::list(folder_).size(), 1u) << "the other one is in quarantine";
    });
  });
}

TEST_F(Restart, AnImpossibleNumberOfHeldUpdatesGivesWayToTheOneBefore) {
  world::run_threads(1, [&](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      groups::CommunicatorGroup group(communicator, 20);
      checkpoint::Store store(folder_, {});
      store.take(group, {"local", 0, 0, "test"});
      Side side({}, adam_, communicator, group, store);
      for (const char* wrong : {"6", "-1", "nan", "", "9223372036854775808"}) {
        for (std::int64_t step : {5, 7}) {
          side.state.step = Step(step);
          side.state.updates = 5;
          side.state.held_updates = 2;
          auto part = side.checkpointer.part_of(side.state);
          if (step == 7) part.state[kHeldUpdates] = wrong;
          store.save(group, side.state.step, part.slices, part.state);
        }
        ASSERT_TRUE(side.checkpointer.restore(side.state)) << wrong;
        EXPECT_EQ(side.state.step, Step(5)) << wrong;
        EXPECT_EQ(side.state.held_updates, 2) << wrong;
      }
    });
  });
}

TEST_F(Restart, MomentsThatAreLackingBeginAsZerosAndCountTheirUpdatesFromThere) {
  carry(
      {{"optim.name", "sgd"}}, momentum_, [](checkpoint::State&) {}, {{"optim.name", "adamw"}}, adam_, true,
      [](Side& before, Side& after) {
        EXPECT_EQ(tensor(after, after.state.parameters.as<float>(), "fc2.bias"),
                  tensor(before, before.state.parameters.as<float>(), "fc2.bias"));
        EXPECT_THAT(after.optimizer(0), Each(0.0f));
        EXPECT_THAT(after.optimizer(1), Each(0.0f));
        EXPECT_EQ(after.state.step, Step(7));
        EXPECT_EQ(after.state.updates, 0);
      });
}

TEST_F(Restart, AnAverageThatIsLackingBeginsAsTheParametersThatAreThere) {
  Arenas averaged = momentum_;
  averaged.push_back({"average", Kind::average});
  carry(
      {}, momentum_, [](checkpoint::State&) {}, {}, averaged, true,
      [](Side& before, Side& after) {
        for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight"}) {
          EXPECT_EQ(tensor(after, after.optimizer(1), name), tensor(before, before.state.parameters.as<float>(), name));
          EXPECT_EQ(tensor(after, after.optimizer(0), name), tensor(before, before.optimizer(0), name));
        }
        EXPECT_EQ(after.state.updates, 5);
      });
}
}  // namespace
}  // namespace distdl::train
