// SPDX-License-Identifier: Apache-2.0
// Runs whose sequences are divided into chunks: the bytes depend on the chunks, and on nothing else.
#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/base/env.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/train/memory.hpp>

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
  struct Product {
    int ranks = 1, context = 1, tensor = 1, pipeline = 1;
    std::string strategy = "replicas";
    const char* schedule = "1f1b";
    const char* recompute = "none";
  };
  std::string digest_on(const Product& product, const std::string& name) {
    auto& options = recipe_.parallel;
    options.context_ranks = product.context;
    options.tensor_ranks = product.tensor;
    options.pipeline_ranks = product.pipeline;
    options.strategy = product.strategy;
    options.schedule = product.schedule;
    options.recompute = product.recompute;
    return digest_of(product.ranks, fmt::format("{}{}", name, ++runs_));
  }
  void expect_same_bytes(const std::string& name, const std::vector<Product>& products) {
    const auto expected = digest_on({}, name);
    const auto loss = recorder_.evaluated.back().loss;
    for (const auto& product : products) {
      EXPECT_EQ(digest_on(product, name), expected)
          << name << ": " << product.ranks << " ranks, of chunks " << product.context << ", of shards "
          << product.tensor << ", of stages " << product.pipeline << ", " << product.strategy << ", "
          << product.schedule << ", " << product.recompute;
      EXPECT_EQ(recorder_.evaluated.back().loss, loss);
    }
  }
  /// All with at most 8 ranks.
  static std::vector<Product> products(std::initializer_list<int> contexts) {
    std::vector<Product> products;
    for (const int context : contexts)
      for (const int tensor : {1, 2, 4})
        for (const int pipeline : {1, 2, 4})
          for (int ranks = context * tensor * pipeline; ranks <= 8; ranks *= 2)
            for (const char* strategy : {"replicas", "sharded", "sharded_gradients", "sharded_parameters"})
              products.push_back({ranks, context, tensor, pipeline, strategy});
    return products;
  }
  static bool tries_every_product() { return env_integer("DISTDL_EVERY_PRODUCT").value_or(0) != 0; }

  int runs_ = 0;
};

/// With dropout, whose choice does not depend on the chunks.
TEST_F(ContextChunks, GiveTheSameLossAsWholeSequences) {
  recipe_.model.layers = 2;
  const auto loss_of = [&](std::int64_t chunks, const std::string& name) {
    recipe_.parallel.context_chunks = chunks;
    EXPECT_EQ(run(1, name + std::to_string(chunks)), Outcome::finished);
    return *recorder_.evaluated.back().loss;
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
  const char* const sharded = "sharded";
  recipe_.train.steps = 2;
  expect_same_bytes("gpt", {{.ranks = 3},
                            {.ranks = 4, .context = 2},
                            {.ranks = 4, .context = 2, .strategy = sharded},
                            {.ranks = 4, .context = 4},
                            {.ranks = 3, .context = 3, .strategy = sharded}});
  recipe_.model.tied_head = false;
  recipe_.model.variant = "llama";
  recipe_.model.kv_heads = 1;
  recipe_.parallel.context_chunks = 3;
  expect_same_bytes("llama", {{.ranks = 4, .context = 2}});
  recipe_.kernels.precision = "bf16";
  expect_same_bytes("bf16", {{.ranks = 2, .context = 2}});
  recipe_.kernels.precision = "fp16";
  expect_same_bytes("fp16", {{.ranks = 2, .context = 2, .strategy = sharded}});
}

/// With DISTDL_EVERY_PRODUCT=1 all of them.
TEST_F(ContextChunks, GiveTheSameBytesInEachProduct) {
  recipe_.train.steps = 2;
  recipe_.model.layers = 2;
  recipe_.model.heads = 4;
  recipe_.parallel = {.microbatches = 8, .microbatch_size = 2, .tensor_shards = 4, .context_chunks = 4};
  const char *const gradients = "sharded_gradients", *const parameters = "sharded_parameters";
  if (!tries_every_product())
    return expect_same_bytes("product", {{.ranks = 8, .context = 2, .tensor = 2, .strategy = parameters},
                                         {.ranks = 8, .tensor = 2, .pipeline = 2, .strategy = parameters},
                                         {.ranks = 6, .context = 2, .strategy = parameters},
                                         {.ranks = 6, .context = 2, .tensor = 3},
                                         {.ranks = 6, .tensor = 3, .pipeline = 2, .schedule = "zero-bubble"},
                                         {.ranks = 8, .context = 2, .pipeline = 2, .strategy = gradients}});
  expect_same_bytes("product", products({1, 2}));
}

TEST_F(ContextChunks, OfGroupedHeadsGiveTheSameBytesOnEightRanks) {
  recipe_.train.steps = 2;
  recipe_.parallel = {.microbatches = 4, .microbatch_size = 2, .tensor_shards = 4, .context_chunks = 4};
  auto& model = recipe_.model;
  model.variant = "llama";
  model.width = 32;
  model.heads = 8;
  model.kv_heads = 4;
  model.tied_head = false;
  expect_same_bytes("grouped", {{.ranks = 8, .context = 2, .tensor = 4},
                                {.ranks = 8, .tensor = 2, .pipeline = 2, .strategy = "sharded_gradients"}});
}

TEST_F(ContextChunks, GiveTheSameBytesForEachModelInEachProduct) {
  if (!tries_every_product()) GTEST_SKIP() << "it takes minutes; DISTDL_EVERY_PRODUCT=1 asks for it";
  recipe_.train.steps = 2;
  recipe_.parallel = {.microbatches = 8, .microbatch_size = 2, .tensor_shards = 4, .context_chunks = 4};
  auto& model = recipe_.model;
  model.layers = 2;
  model.width = 32;
  model.heads = 8;
  model.tied_head = false;
  expect_same_bytes("untied", products({1, 2}));
  model.variant = "llama";
  model.kv_heads = 4;
  expect_same_bytes("grouped", products({1, 2}));
  recipe_.data.train = set().string();
  recipe_.parallel.context_chunks = 1;
  model = {.name = "vit", .layers = 2, .width = 16, .heads = 4, .patch = 6, .dropout = 0.1};
  expect_same_bytes("vit", products({1}));
  model = {.name = "resnet18"};
  recipe_.optim = {.name = "sgd", .learning_rate = 0.01, .momentum = 0.9, .clip_norm = 0.5};
  recipe_.train.steps = 1;
  expect_same_bytes("resnet18", products({1}));
}

TEST_F(ContextChunks, GiveTheSameBytesWithEachScheduleOfAPipeline) {
  recipe_.train.steps = 2;
  recipe_.model.layers = 2;
  expect_same_bytes("stages",
                    {{.ranks = 8, .context = 2, .pipeline = 4, .strategy = "sharded", .schedule = "zero-bubble"},
                     {.ranks = 3, .pipeline = 3, .schedule = "gpipe"},
                     {.ranks = 4, .context = 2, .pipeline = 2, .schedule = "interleaved"}});
}

TEST_F(ContextChunks, AreComputedAgainWithTheSameBytes) {
  recipe_.train.steps = 2;
  recipe_.model.layers = 4;
  recipe_.parallel.tensor_shards = 2;
  const char* const blocks = "blocks";
  expect_same_bytes("blocks", {{.ranks = 1, .recompute = blocks},
                               {.ranks = 3, .context = 3, .recompute = blocks},
                               {.ranks = 4, .context = 2, .tensor = 2, .recompute = blocks},
                               {.ranks = 6, .context = 3, .pipeline = 2, .recompute = blocks}});
  recipe_.model.layers = 1;
  recipe_.model.width = 8;
  recipe_.model.heads = 4;
  recipe_.model.context = 4;
  recipe_.model.vocabulary = 259;  // of which one rank has shards of 64 and 65, the other one of 65 and 65
  recipe_.parallel.tensor_shards = 4;
  expect_same_bytes("vocabulary", {{.ranks = 2, .tensor = 2, .recompute = blocks}});
}

TEST_F(ContextChunks, TakeLessMemoryWhereTheyAreComputedAgain) {
  auto gpt = model::describe_model({.name = "gpt", .layers = 6, .width = 32, .heads = 4, .context = 128}, {128}, 65);
  gpt.context = {4, 0, 4};
  const auto backend = kernels::make_backend({.backend = "onednn"});
  const auto tensors = model::tensors_of(gpt);
  using enum model::Network::Activations;
  const model::Network keeps(*backend, gpt, tensors, 2), recomputes(*backend, gpt, tensors, 2, recomputed);
  EXPECT_LT(2 * recomputes.activation_bytes(), keeps.activation_bytes());
  const parallel::Options options{
      .recompute = parallel::Recompute::automatic, .microbatch_size = 2, .context_chunks = 4};
  const auto choice = [&](std::size_t bytes) {
    return activations_for(gpt, options, {}, tensor::DataType::float32, {.degrees = {}, .logs = false}, bytes);
  };
  const auto arenas = 3 * tensors.layout.size() * sizeof(float);  // parameters, gradients, moments
  EXPECT_EQ(choice(arenas + keeps.activation_bytes()), kept);
  EXPECT_EQ(choice(arenas + keeps.activation_bytes() - 1), recomputed);
}

/// A rank has the first and the last of four chunks, whose keys are those of all places.
TEST_F(ContextChunks, CountInTheMemoryThatARankNeeds) {
  auto gpt = model::describe_model({.name = "gpt", .layers = 1, .width = 32, .heads = 1, .context = 128}, {128}, 8);
  const auto tensors = model::tensors_of(gpt);
  const auto least = [&](std::int64_t chunks, std::int64_t count) {
    gpt.context = {chunks, 0, count};
    std::uint64_t bytes = 1;
    const auto fits = [&] {
      try {
        check_memory(gpt, tensors, {.microbatch_size = 1}, {}, {}, bytes);
        return true;
      } catch (const ConfigError&) {
        return false;
      }
    };
    while (!fits()) bytes *= 2;
    for (auto step = bytes / 2; step > 0; step /= 2)
      if (bytes -= step; !fits()) bytes += step;
    return bytes;
  };
  const std::uint64_t arenas = 3 * tensors.layout.size() * sizeof(float);
  EXPECT_EQ(least(1, 1), arenas + 2u * 128 * 128) << "between the layers of an MLP";
  EXPECT_EQ(least(4, 2), arenas + 2u * (32 * 128 + (32 + 2 * 128) * 32));
}

class AuditedChunks : public ContextChunks {
 protected:
  void SetUp() override {
    ContextChunks::SetUp();
    recipe_.train.audit_every = 1;
    recipe_.parallel.context_ranks = 2;
  }
};

TEST_F(AuditedChunks, RaiseNoFalseAlarm) {
  for (const int ranks : {2, 4}) digest_of(ranks, fmt::format("audited{}", ranks));
  EXPECT_EQ(recorder_.audited.size(), 2 * 5u);
  EXPECT_EQ(digest("audited2"), digest("audited4"));
}

TEST_F(AuditedChunks, ShowTheRankThatIsWrong) {
  const auto ranks_of = [&](const char* flip, int ranks) {
    recorder_ = {};
    bit_flip_ = bit_flip_from(flip);
    EXPECT_THAT(error_of(ranks, flip), HasSubstr("silent corruption found by the audit of step"));
    return recorder_.corrupted.at(0).ranks;
  };
  EXPECT_THAT(ranks_of("parameters:3:1", 4), testing::ElementsAre(3));
  EXPECT_THAT(ranks_of("gradients:2:1", 4), testing::ElementsAre(2));
  EXPECT_THAT(ranks_of("gradients:1:2", 2), testing::ElementsAre(1));
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
  recipe_.data.train = set().string();
  recipe_.model = {.name = "vit", .layers = 1, .width = 12, .heads = 2, .patch = 6};
  EXPECT_THAT(with({.context_chunks = 2}), HasSubstr("of model \"vit\" are no sequences that can be divided"));
}
}  // namespace
}  // namespace distdl::train
