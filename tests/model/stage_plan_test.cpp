// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include <distdl/model/gradient_memory.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/stage_plan.hpp>

namespace distdl::model {
namespace {
using kernels::Fusion;
using testing::ElementsAre;

/// A layer that computes nothing.
class NoLayer final : public kernels::Layer {
 public:
  NoLayer(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input)
      : is_relu_(std::holds_alternative<kernels::Relu>(spec)),
        format_(kernels::dense(kernels::output_shape(spec, input.shape))) {}
  const kernels::ActivationFormat& output() const override { return format_; }
  void load_parameters(kernels::ConstPointers) override {}
  void forward(const void*, void*, kernels::Phase) override {}
  void backward_input(const void*, const void*, const void*, void*) override {}
  void backward_weights(const void*, const void*, kernels::Pointers) override {}
  bool works_in_place() const override { return is_relu_; }
  bool backward_reads_output() const override { return is_relu_; }
  Fusion fuse(const kernels::LayerSpec& next, bool) override {
    return fuses && std::holds_alternative<kernels::Relu>(next) ? Fusion::whole : Fusion::none;
  }

  static inline bool fuses = false;

 private:
  bool is_relu_;
  kernels::ActivationFormat format_;
};

/// Layers of no backend: dense floats; a ReLU works in place.
class NoBackend final : public StageLayers {
 public:
  tensor::DataType activation_type() const override { return tensor::DataType::float32; }
  bool same_layout(const kernels::ActivationFormat&, const kernels::ActivationFormat&) const override { return true; }
  kernels::ActivationFormat output_of(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input) override {
    return NoLayer(spec, input).output();
  }
  kernels::Layer& add(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input, bool) override {
    return *layers_.emplace_back(std::make_unique<NoLayer>(spec, input));
  }

 private:
  std::vector<std::unique_ptr<NoLayer>> layers_;
};

class StagePlans : public testing::Test {
 protected:
  void TearDown() override { NoLayer::fuses = false; }
  static StagePlan plan(const Description& model, bool recomputes = false) {
    NoBackend layers;
    return plan_stages(model, tensors_of(model), 2, recomputes, {}, layers);
  }
};

/// Two linear layers around a ReLU, with a shortcut from the first to the last.
Description with_shortcut() {
  return {"shortcut",
          {8},
          8,
          {{"first", kernels::Linear{8}},
           {"middle", kernels::Linear{8}},
           {"relu", kernels::Relu{}},
           {"last", kernels::Linear{8}, "relu", "first"}}};
}

TEST_F(StagePlans, ALayerThatWorksInPlaceSharesTheOutputBefore) {
  const StagePlan found = plan(with_shortcut());
  ASSERT_EQ(found.stages.size(), 4U);
  EXPECT_TRUE(found.stages[2].in_place);
  EXPECT_FALSE(found.stages[3].in_place);
  EXPECT_EQ(found.activation_bytes, bytes_of(std::vector<LayerMemory>(3, {.bytes = 2 * 8 * sizeof(float)})))
      << "that of the ReLU takes none";
}

TEST_F(StagePlans, TheFirstGradientOfAnOutputIsWrittenAndOthersAreAdded) {
  const StagePlan found = plan(with_shortcut());
  EXPECT_FALSE(found.stages[3].plus_adds) << "the shortcut comes first in the backward pass";
  EXPECT_TRUE(found.stages[1].from_adds);
  EXPECT_EQ(found.spare_bytes, 2 * 8 * sizeof(float));
  for (const Stage& stage : found.stages) EXPECT_TRUE(stage.is_used);
}

TEST_F(StagePlans, AFusedLayerIsPassedWithTheOneBefore) {
  NoLayer::fuses = true;
  const StagePlan found = plan(with_shortcut());
  EXPECT_EQ(found.stages[1].fused, std::optional<std::size_t>(2));
  EXPECT_EQ(found.stages[2].done_before, Fusion::whole);
  EXPECT_FALSE(found.stages[2].has_input_gradient());
  EXPECT_EQ(found.stages[0].fused, std::nullopt) << "its output has two readers";
}

TEST_F(StagePlans, PlacesDescendToTheBeginOfTheArena) {
  const Description model = with_shortcut();
  const StagePlan found = plan(model);
  const std::size_t size = tensors_of(model).layout.size();
  EXPECT_THAT(found.places(), ElementsAre(size, found.stages[3].final_from, found.stages[1].final_from, 0U));
  EXPECT_EQ(found.stages[1].final_from, 80U) << "64 weights and 8 biases, up to a line of 16";
}

TEST_F(StagePlans, GradientsThatAreNotNeededAtTheSameTimeShareMemory) {
  const StagePlan found = plan(with_shortcut());
  const GradientMemory together = plan_gradient_memory(found, false), apart = plan_gradient_memory(found, true);
  EXPECT_EQ(together.block_of[0], together.block_of[3]) << "the shortcut hands its gradient on";
  EXPECT_EQ(together.block_of[1], together.block_of[2]) << "in place";
  EXPECT_EQ(together.bytes.size(), 2U);
  EXPECT_EQ(std::set<int>(apart.block_of.begin(), apart.block_of.end()).size(), 4U);
}

TEST_F(StagePlans, APartGetsTheOutputOfTheLayersBefore) {
  const Description model = with_shortcut();
  ModelTensors tensors = tensors_of(model);
  std::erase_if(tensors.tensors, [](const ModelTensor& tensor) { return tensor.layer != 1; });
  tensors.layers = {1, 3};
  NoBackend layers;
  const StagePlan found = plan_stages(model, tensors, 2, false, {}, layers);
  ASSERT_EQ(found.stages.size(), 3U);
  EXPECT_FALSE(found.reads_samples());
  EXPECT_FALSE(found.has_loss);
  EXPECT_FALSE(found.stages[0].has_layer);
  EXPECT_EQ(found.stages[1].from, 0);
  EXPECT_EQ(found.layer_of(1), 1U);
}

TEST_F(StagePlans, WhatIsComputedAgainIsReadBeforeTheBackwardPass) {
  for (const Description& model :
       {describe_model({.name = "gpt", .layers = 2, .width = 32, .heads = 4, .context = 16}, {16}, 100),
        describe_model({.name = "resnet18"}, {3, 32, 32}, 10)}) {
    const std::string& name = model.name;
    const StagePlan keeps = plan(model), repeats = plan(model, true);
    EXPECT_EQ(keeps.repeated_flops(), 0) << name;
    EXPECT_GT(repeats.repeated_flops(), 0) << name;
    EXPECT_LT(repeats.activation_bytes, keeps.activation_bytes) << name;
    EXPECT_EQ(keeps.places(), repeats.places()) << name;
    for (std::size_t i = 0; i < repeats.stages.size(); ++i) {
      const auto [first, end] = repeats.block_before(i);
      if (first == end) continue;
      EXPECT_EQ(end, i + 1) << name;
      EXPECT_FALSE(repeats.is_repeated(i, i) && repeats.stages[i].workspace == 0) << name << ": its output is kept";
      EXPECT_EQ(repeats.stages[i].shared_output, std::nullopt) << name;
      EXPECT_GE(repeats.reads(true)[i].size(), repeats.reads(false)[i].size()) << name;
    }
  }
}

}  // namespace
}  // namespace distdl::model
