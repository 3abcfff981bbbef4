// SPDX-License-Identifier: Apache-2.0
// Activations that are computed again in the backward pass: no byte of a run depends on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/model/activations.hpp>
#include <distdl/model/models.hpp>
#include <distdl/train/compute/evaluator.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;
using Activations = model::Network::Activations;

class Recomputed : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 8;
  }
  std::string digest_of(int ranks, const char* recompute) {
    const auto name = fmt::format("run{}", ++runs_);
    recipe_.parallel.recompute = recompute;
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    return digest(name);
  }
  Activations chosen(std::uint64_t memory) const {
    return activations_for(gpt_, recipe_.parallel, recipe_.optim, tensor::DataType::float32, {}, memory);
  }
  const model::Description gpt_ =
      model::describe_model({.name = "gpt", .layers = 6, .width = 32, .heads = 4, .context = 128}, {128}, 65);
  int runs_ = 0;
};

TEST_F(Recomputed, GivesTheSameBytes) {
  for (const bool text : {false, true}) {
    if (text) use_text();
    recipe_.model.dropout = text ? 0.1 : 0;
    const auto expected = digest_of(1, "none");
    for (const double mib : {0.0, 1e-6}) {
      recipe_.parallel.bucket_mib = mib;
      for (const int ranks : {1, 3}) EXPECT_EQ(digest_of(ranks, "blocks"), expected) << ranks;
    }
  }
}

TEST_F(Recomputed, MayBeChangedAtARestart) {
  const auto expected = digest_of(2, "none");
  testing::internal::CaptureStderr();
  for (const char* recompute : {"blocks", "none"}) {
    recipe_.parallel.recompute = recompute;
    EXPECT_EQ(run(2, "changed", 1), Outcome::stopped);
  }
  recipe_.parallel.recompute = "blocks";
  EXPECT_EQ(run(1, "changed"), Outcome::finished);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(digest("changed"), expected);
}

TEST_F(Recomputed, IsChosenWhereTheModelWouldNotFitOtherwise) {
  recipe_.parallel.microbatch_size = 8;
  const auto layers = model::estimated_activations(gpt_, 8, tensor::DataType::float32);
  const std::uint64_t arenas = 3 * model::tensors_of(gpt_).layout.size() * sizeof(float);
  const std::uint64_t all = arenas + model::bytes_of(layers), little = all - 1;
  EXPECT_EQ(chosen(all), Activations::kept);
  EXPECT_EQ(chosen(little), Activations::recomputed);
  recipe_.parallel.recompute = "none";
  EXPECT_EQ(chosen(little), Activations::kept);
  recipe_.parallel.recompute = "blocks";
  EXPECT_EQ(chosen(all), Activations::recomputed);
}

TEST_F(Recomputed, TakesWhatThePlanSays) {
  const auto backend = kernels::make_backend({.backend = "onednn"});
  const auto tensors = model::tensors_of(gpt_);
  const auto layers = model::estimated_activations(gpt_, 2, tensor::DataType::float32);
  const model::Network keeps(*backend, gpt_, tensors, 2),
      recomputes(*backend, gpt_, tensors, 2, Activations::recomputed);
  EXPECT_EQ(keeps.activation_bytes(), model::bytes_of(layers));
  EXPECT_EQ(recomputes.activation_bytes(), model::plan_recomputation(layers).bytes());
  EXPECT_LT(3 * recomputes.activation_bytes(), keeps.activation_bytes());
}

TEST_F(Recomputed, EvaluatesTheLastSamplesWithAsLittle) {
  use_text();
  recipe_.data.holdout = 51;  // five samples
  recipe_.model = {.name = "gpt", .layers = 6, .width = 32, .heads = 4, .context = 10};
  const auto sources = data::open_sources(recipe_.data, 10, 1);
  const auto model = model_of(recipe_, *sources.training);
  const auto tensors = model::tensors_of(model);
  const auto backend = kernels::make_backend({.backend = "onednn"});
  const auto bytes = [&](Activations activations) {
    model::Network network(*backend, model, tensors, 4, activations);
    std::size_t of_rest = 0;
    world::run_threads(1, [&](world::World& world) {
      comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
        const parallel::Mesh mesh(communicator, {});
        model::Network* const networks[] = {&network};
        const tensor::DryAllocations dry;
        const Evaluator evaluator(*backend, model, {&tensors, 1}, networks, sources, mesh, activations);
        of_rest = dry.bytes();
      });
    });
    return of_rest;
  };
  EXPECT_GT(bytes(Activations::recomputed), 0);
  EXPECT_LT(2 * bytes(Activations::recomputed), bytes(Activations::kept));
}

TEST_F(Recomputed, RefusesOtherNames) {
  EXPECT_THAT([this] { recipe_.parallel.recompute = "all"; },
              testing::ThrowsMessage<ConfigError>(HasSubstr("\"all\" is not \"none\", \"blocks\" or \"auto\"")));
}
}  // namespace
}  // namespace distdl::train
