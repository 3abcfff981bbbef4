// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/bound_network.hpp"
#include <distdl/model/parts.hpp>

namespace distdl::model {
namespace {
using ::testing::ElementsAre;

Options small_gpt() {
  return {.name = "gpt", .layers = 2, .width = 24, .heads = 4, .context = 10, .dropout = 0.2};
}

TEST(Parts, BeginWhereOneOutputIsReadAndNoWorkIsShared) {
  EXPECT_THAT(first_layers(describe_model({.hidden = {12}}, {1, 8, 8}, 4)), ElementsAre(0, 2, 3, 5, 6, 8))
      << "not at a ReLU, which the layer before may compute";
  const auto gpt = describe_model(small_gpt(), {8}, 11);
  std::vector<std::string> names;
  for (const std::size_t first : first_layers(gpt)) names.push_back(gpt.layers[first].name);
  EXPECT_THAT(names,
              ElementsAre("wte", "wpe", "drop", "h.0.ln_1", "h.0.ln_2", "h.1.ln_1", "h.1.ln_2", "ln_f", "lm_head"))
      << "not within a residual block";
}

TEST(Parts, HaveTheNamesAndInitialValuesOfTheWholeModel) {
  const auto model = describe_model(small_gpt(), {8}, 11);
  const auto whole = tensors_of(model), part = tensors_of(model, {first_layers(model).at(4), model.layers.size()});
  std::vector<float> all(whole.layout.size()), some(part.layout.size());
  initialize(whole, 7, all);
  initialize(part, 7, some);
  for (const auto& view : part.layout.tensors()) {
    const auto* const other = whole.layout.find(view.name);
    ASSERT_NE(other, nullptr) << view.name;
    EXPECT_EQ(view.shape, other->shape);
    EXPECT_TRUE(std::equal(&some[view.offset], &some[view.offset] + view.count, &all[other->offset])) << view.name;
  }
  EXPECT_EQ(part.layout.tensors().back().name, "wte.weight") << "for the head";
  EXPECT_EQ(part.layout.tensors().back().role, tensor::Role::borrowed);
  EXPECT_FALSE(part.tensors.back().shared);
}

/// One part of a model that computes after the one before it, in the same process.
struct BoundPart {
  ModelTensors tensors;
  Network network;
  tensor::Buffer parameters, gradients;

  BoundPart(BoundNetwork& whole, const LayerRange& layers, bool in_pieces)
      : tensors(tensors_of(whole.model, layers)),
        network(*whole.backend, whole.model, tensors, whole.network.samples()),
        parameters(whole.backend->allocate(tensors.layout.size() * sizeof(float))),
        gradients(whole.backend->allocate(network.gradient_count() * sizeof(float))) {
    std::vector<float> start(tensors.layout.size());
    initialize(tensors, 3, start);
    whole.backend->copy_from_host(parameters.data(), start.data(), start.size() * sizeof(float));
    network.load_parameters(static_cast<const float*>(parameters.data()));
    network.prepare_backward(in_pieces);
  }
  float* gradient_arena() const { return static_cast<float*>(gradients.data()); }
};

Description small_model(int which) {
  const Options gpt = small_gpt();
  Options untied = gpt;
  untied.tied_head = false;
  untied.variant = "llama";
  untied.kv_heads = 2;
  switch (which) {
    case 0:
      return describe_model({.hidden = {12}, .batch_norm = true}, {1, 8, 8}, 4);
    case 1:
      return describe_model(gpt, {8}, 11);
    case 2:
      return describe_model(untied, {8}, 11);
    case 3:
      return describe_model({.name = "vit", .layers = 2, .width = 24, .heads = 3, .patch = 4}, {3, 8, 8}, 5);
    default:
      return describe_model({.name = "resnet18"}, {3, 8, 8}, 4);
  }
}

class PartsOf : public ::testing::TestWithParam<std::tuple<std::string, int, bool>> {
 protected:
  PartsOf() : whole_(std::get<0>(GetParam()), small_model(std::get<1>(GetParam())), 4) {
    auto firsts = first_layers(whole_.model);
    firsts.push_back(whole_.model.layers.size());
    for (std::size_t i = 0; i + 1 < firsts.size(); ++i)
      parts_.push_back(std::make_unique<BoundPart>(whole_, LayerRange{firsts[i], firsts[i + 1]}, in_pieces()));
  }
  static bool in_pieces() { return std::get<2>(GetParam()); }

  void copy(const Network::Activation& to, const Network::Activation& from) {
    ASSERT_EQ(to.size(), from.size());
    whole_.backend->copy(to.data(), from.data(), from.size());
  }
  /// The gradient of a tensor that a later part shares.
  void lend(const BoundPart& owner) {
    for (const auto& tensor : owner.tensors.tensors)
      if (tensor.elsewhere && tensor.view.role != tensor::Role::borrowed)
        for (const auto& part : parts_)
          if (const auto* view = part->tensors.layout.find(tensor.view.name);
              view && view->role == tensor::Role::borrowed)
            whole_.backend->copy(owner.gradient_arena() + tensor.view.offset, part->gradient_arena() + view->offset,
                                 view->count * sizeof(float));
  }
  void forward() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (i > 0) copy(parts_[i]->network.input(), parts_[i - 1]->network.output());
      parts_[i]->network.forward(kernels::Phase::training);
    }
  }
  void backward() {
    for (std::size_t i = parts_.size(); i-- > 0;) {
      auto& network = parts_[i]->network;
      if (i + 1 < parts_.size()) copy(network.output_gradient(), parts_[i + 1]->network.input_gradient());
      if (in_pieces()) {
        network.backward_input(1.0f);
        continue;
      }
      lend(*parts_[i]);
      network.backward(parts_[i]->gradient_arena(), 1.0f);
    }
    for (auto part = parts_.rbegin(); in_pieces() && part != parts_.rend(); ++part) {
      lend(**part);
      (*part)->network.backward_weights((*part)->gradient_arena());
    }
  }

  BoundNetwork whole_;
  std::vector<std::unique_ptr<BoundPart>> parts_;
};

TEST_P(PartsOf, GiveTheBitsOfTheWholeModel) {
  const auto expected = whole_.run();
  whole_.give_batch([&](const void* samples, const void* targets) {
    for (auto& part : parts_) part->network.set_batch(samples, targets);
  });
  for (int run = 0; run < 2; ++run) {
    forward();
    backward();
  }
  for (const auto& part : parts_) {
    const float* const mine = part->gradient_arena();
    for (const auto& view : part->tensors.layout.tensors()) {
      if (view.role == tensor::Role::borrowed) continue;
      const float* const other = &expected[whole_.tensors.layout.find(view.name)->offset];
      EXPECT_TRUE(std::equal(mine + view.offset, mine + view.offset + view.count, other)) << view.name;
    }
  }
  const float* const tail = parts_.back()->gradient_arena() + parts_.back()->tensors.layout.size();
  EXPECT_TRUE(std::equal(tail, tail + Network::kTail, &expected[whole_.tensors.layout.size()])) << "the totals";
}

INSTANTIATE_TEST_SUITE_P(Models, PartsOf,
                         ::testing::Combine(::testing::Values("reference", "onednn"), ::testing::Range(0, 5),
                                            ::testing::Bool()));
}  // namespace
}  // namespace distdl::model
