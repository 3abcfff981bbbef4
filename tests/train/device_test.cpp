// SPDX-License-Identifier: Apache-2.0
// Runs on a device whose memory the host cannot touch: ranks that share layers, sequences or stages leave the bytes of
// one rank on the processor.
#include <gmock/gmock.h>

#include "tests/kernels/far_backend.hpp"
#include "tests/train/run_fixture.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/registry/registry.hpp>

namespace distdl::kernels {
// In this program the backend "cuda" is this one, and not that of the plug-in.
bool cuda_is_built() {
  return true;
}
std::unique_ptr<Backend> make_cuda_backend(const Options& options) {
  if (options.backend == "auto") throw BackendUnavailable("it is for those who ask for it");
  return test::make_far_backend(make_reference_backend(options));
}
}  // namespace distdl::kernels

namespace distdl::train {
namespace {
class OnDevices : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.context = 8;
    recipe_.model.layers = 2;
    recipe_.data.holdout = 21;
    recipe_.parallel = {.microbatches = 4, .microbatch_size = 2, .tensor_shards = 2};
    recipe_.train.steps = 3;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .clip_norm = 0.5};
  }
  struct Product {
    int ranks = 1, tensor = 1, context = 1, pipeline = 1;
    const char* strategy = "replicas";
    const char* recompute = "none";
  };
  void expect_bytes_of_one_rank_on_the_processor(const std::vector<Product>& products) {
    const auto name = fmt::format("chunks{}_", recipe_.parallel.context_chunks);
    recipe_.kernels.backend = "reference";
    const auto expected = digest_of(1, name);
    recipe_.kernels.backend = "cuda";
    for (const auto& product : products) {
      auto& options = recipe_.parallel;
      options.tensor_ranks = product.tensor;
      options.context_ranks = product.context;
      options.pipeline_ranks = product.pipeline;
      options.strategy = product.strategy;
      options.recompute = product.recompute;
      recipe_.train.audit_every = options.strategy == parallel::Strategy::replicas ? 2 : 0;
      const auto of = fmt::format("{}_{}_{}_{}_{}_{}", product.ranks, product.tensor, product.context, product.pipeline,
                                  product.strategy, product.recompute);
      EXPECT_EQ(digest_of(product.ranks, name + of), expected) << of;
    }
  }
};

TEST_F(OnDevices, RanksThatHoldAModelTogetherGiveTheBytesOfOneRankOnTheProcessor) {
  expect_bytes_of_one_rank_on_the_processor(
      {{.ranks = 1}, {.ranks = 2, .tensor = 2}, {.ranks = 4, .pipeline = 2}, {.ranks = 2, .strategy = "sharded"}});
  recipe_.parallel.context_chunks = 4;
  expect_bytes_of_one_rank_on_the_processor(
      {{.ranks = 1},
       {.ranks = 3, .context = 3},
       {.ranks = 8, .tensor = 2, .context = 2, .strategy = "sharded"},
       {.ranks = 8, .tensor = 2, .context = 2, .pipeline = 2, .recompute = "blocks"}});
}

TEST_F(OnDevices, WhatNeedsMemoryOfTheHostIsRefused) {
  recipe_.kernels.backend = "cuda";
  recipe_.optim.clip_norm = 0;
  recipe_.parallel.strategy = "sharded_parameters";
  EXPECT_THAT(error_of(2, "parameters"), testing::HasSubstr("needs parameters in host memory, but the backend is far"));
  recipe_.parallel.strategy = "replicas";
  recipe_.parallel.tensor_ranks = 2;
  recipe_.optim.name = "lamb";
  EXPECT_THAT(error_of(2, "ratios"), testing::HasSubstr("norms are added up in host memory, and the backend is far"));
}
}  // namespace
}  // namespace distdl::train
