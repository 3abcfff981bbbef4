// SPDX-License-Identifier: Apache-2.0
// Runs whose sequences are divided into chunks: the bytes depend on the chunks, and on nothing else.
#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"

namespace distdl::train {
namespace {
using testing::HasSubstr;

class ContextChunks : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.context = 12;
    recipe_.data.holdout = 21;
    recipe_.parallel = {.microbatches = 6, .microbatch_size = 2, .context_chunks = 4};
    recipe_.train.steps = 4;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .clip_norm = 0.5};
  }
  void expect_same_bytes(const std::string& name, std::initializer_list<std::pair<int, int>> products) {
    recipe_.parallel.context_ranks = 1;
    recipe_.parallel.strategy = "replicas";
    const auto expected = digest_of(1, name);
    const auto loss = recorder_.evaluated.back().loss;
    for (const auto& [ranks, context_ranks] : products)
      for (const char* strategy : {"replicas", "sharded"}) {
        recipe_.parallel.context_ranks = context_ranks;
        recipe_.parallel.strategy = strategy;
        EXPECT_EQ(digest_of(ranks, fmt::format("{}{}_{}_{}", name, ranks, context_ranks, strategy)), expected)
            << name << ": " << ranks << " ranks, " << context_ranks << " for chunks, " << strategy;
        EXPECT_EQ(recorder_.evaluated.back().loss, loss);
      }
  }
};

/// With dropout, whose choice does not depend on the chunks.
TEST_F(ContextChunks, GiveTheSameLossAsWholeSequences) {
  recipe_.model.layers = 2;
  const auto loss_of = [&](std::int64_t chunks, const std::string& name) {
    recipe_.parallel.context_chunks = chunks;
    EXPECT_EQ(run(1, name + std::to_string(chunks)), Outcome::finished);
    return recorder_.evaluated.back().loss;
  };
  for (const std::string name : {"gpt", "llama", "shards"}) {
    recipe_.model.variant = name == "llama" ? "llama" : "gpt2";
    recipe_.model.kv_heads = name == "llama" ? 1 : 0;
    recipe_.model.tied_head = name != "llama";
    recipe_.parallel.tensor_shards = name == "shards" ? 2 : 1;
    const double whole = loss_of(1, name);
    for (const std::int64_t chunks : {2, 3, 12}) EXPECT_NEAR(loss_of(chunks, name), whole, 1e-4 * whole) << name;
  }
}

TEST_F(ContextChunks, GiveTheSameBytesOnEachNumberOfRanks) {
  expect_same_bytes("gpt", {{3, 1}, {4, 2}, {4, 4}, {3, 3}});
  recipe_.parallel.tensor_shards = 2;
  expect_same_bytes("shards", {{2, 2}});
  recipe_.parallel.tensor_shards = 1;
  recipe_.model.tied_head = false;
  recipe_.model.variant = "llama";
  recipe_.model.kv_heads = 1;
  recipe_.parallel.context_chunks = 3;
  expect_same_bytes("llama", {{4, 2}});
  recipe_.kernels.precision = "bf16";
  expect_same_bytes("bf16", {{2, 2}});
  recipe_.kernels.precision = "fp16";
  expect_same_bytes("fp16", {{2, 2}});
}

TEST_F(ContextChunks, MoveBetweenDegreesWhileTheRunGoesOn) {
  recipe_.train.steps = 10;
  const auto expected = digest_of(1, "expected");
  const auto go_on = [&](int ranks, int context_ranks, int stop_at, const std::string& log = {}) {
    recipe_.parallel.context_ranks = context_ranks;
    testing::internal::CaptureStderr();
    EXPECT_EQ(run(ranks, "moved", stop_at), stop_at < 0 ? Outcome::finished : Outcome::stopped);
    const auto found = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(log.empty() ? found.empty() : found.find(log) != std::string::npos) << ranks << ": " << found;
  };
  go_on(4, 4, 1);
  go_on(2, 1, 1);
  recipe_.parallel.strategy = "sharded";
  go_on(4, 2, 1);
  go_on(3, 2, -1,
        "3 ranks: 1 context group of 3 ranks, not of parallel.context_ranks = 2, because 3 ranks do not divide into "
        "context groups of 2");
  EXPECT_EQ(digest("moved"), expected);
}

TEST_F(ContextChunks, RefuseWhatTheyCannotDo) {
  const auto with = [&](const parallel::Options& options) {
    recipe_.parallel = options;
    recipe_.parallel.microbatches = 6;
    recipe_.parallel.microbatch_size = 2;
    return error_of(2, "refused");
  };
  EXPECT_THAT(with({.context_chunks = 5}), HasSubstr("parallel.context_chunks is 5, but must divide the 12 tokens of a "
                                                     "sample; the nearest number that does is 4"));
  EXPECT_EQ(code_, ExitCode::config);
  EXPECT_THAT(with({.context_chunks = 0}), HasSubstr("parallel.context_chunks is 0, but must be between 1 and"));
  EXPECT_THAT(with({.context_chunks = 2, .context_ranks = 3}),
              HasSubstr("parallel.context_ranks is 3, but must be between 1 and parallel.context_chunks = 2"));
  EXPECT_THAT(with({.context_chunks = 2, .pipeline_ranks = 2}), HasSubstr("use parallel.pipeline_ranks = 1, or 1"));
  EXPECT_THAT(with({.tensor_shards = 2, .tensor_ranks = 2, .context_chunks = 2}),
              HasSubstr("cannot be combined with parallel.tensor_ranks = 2"));
  EXPECT_THAT(with({.recompute = parallel::Recompute::blocks, .context_chunks = 2}),
              HasSubstr("use parallel.recompute = \"none\""));
  recipe_.train.audit_every = 2;
  EXPECT_THAT(with({.context_chunks = 2, .context_ranks = 2}), HasSubstr("leave out one of them"));
  recipe_.train.audit_every = 0;
  recipe_.data.train = set().string();
  recipe_.model = {.name = "vit", .layers = 1, .width = 12, .heads = 2, .patch = 6};
  EXPECT_THAT(with({.context_chunks = 2}), HasSubstr("of model \"vit\" are no sequences that can be divided"));
}
}  // namespace
}  // namespace distdl::train
