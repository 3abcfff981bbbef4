// SPDX-License-Identifier: Apache-2.0
// Ways of training together with codecs, precisions, clipping, audits and parts of the model. What excludes what is the
// table in docs/training-modes.md; all else runs, and repeats its bytes.

#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/base/env.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Composed : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.model.width = 32;  // tensors long enough for codes
    recipe_.model.context = 12;
    recipe_.data.holdout = 21;
    recipe_.parallel = {.microbatches = 6, .microbatch_size = 2, .tensor_shards = 2, .context_chunks = 2};
    recipe_.parallel.compression = {.encoding = Compression::int8, .fraction = 0.05, .rank = 2, .warmup_steps = 1};
    recipe_.train.steps = 5;
    recipe_.optim = {.name = "adamw", .learning_rate = 0.01, .clip_norm = 0.5};
    recipe_.checkpoint.every = 0;
  }
  struct Product {
    int data = 2, pipeline = 1, tensor = 1, context = 1;
    parallel::Strategy strategy = parallel::Strategy::replicas;
    int ranks() const { return data * pipeline * tensor * context; }
  };
  void use(const Product& product) {
    recipe_.parallel.pipeline_ranks = product.pipeline;
    recipe_.parallel.tensor_ranks = product.tensor;
    recipe_.parallel.context_ranks = product.context;
    recipe_.parallel.strategy = product.strategy;
  }
  std::string digest_on(const Product& product, const std::string& name) {
    use(product);
    return digest_of(product.ranks(), name);
  }
  /// Mean loss of the last steps of a longer run.
  double last_loss(const std::string& name, int ranks) {
    recorder_.steps.clear();
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    double sum = 0;
    constexpr std::size_t kLast = 5;
    for (std::size_t i = recorder_.steps.size() - kLast; i < recorder_.steps.size(); ++i)
      sum += *recorder_.steps[i].loss;
    return sum / kLast;
  }
};

TEST_F(Composed, CodesOfShardsGiveTheBytesOfReplicas) {
  using enum parallel::Strategy;
  for (const auto codec : {Compression::int8, Compression::topk, Compression::powersgd}) {
    recipe_.parallel.compression.encoding = codec;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    const auto expected = digest_on({.data = 3}, name);
    for (const auto strategy : {sharded, sharded_gradients, sharded_parameters})
      for (const int ranks_of_a_node : {0, 1}) {
        shared_memory_ranks_ = ranks_of_a_node;
        const OneOf named(strategy);
        EXPECT_EQ(
            digest_on({.data = 3, .strategy = strategy}, fmt::format("{}-{}-{}", name, named.name(), ranks_of_a_node)),
            expected)
            << named.name() << " with " << name << ", ranks of a node: " << ranks_of_a_node;
        EXPECT_EQ(recorder_.steps.back().compression, name);
      }
    shared_memory_ranks_ = 0;
  }
}

/// Replicas do not send parameters, so theirs are other bytes.
TEST_F(Composed, CodesOfChangesGiveTheSameBytesHoweverTheModelIsDivided) {
  using enum parallel::Strategy;
  recipe_.parallel.compression.of_parameters = true;
  recipe_.optim.ema_decay = 0.9;
  for (const auto codec : {Compression::int8, Compression::topk}) {
    recipe_.parallel.compression.encoding = codec;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    const auto expected = digest_on({.data = 3, .strategy = sharded}, name);
    EXPECT_NE(digest_on({.data = 3, .strategy = sharded_parameters}, name + "exact"), expected);
    recipe_.parallel.bucket_mib = 1e-3;
    shared_memory_ranks_ = 1;
    EXPECT_EQ(digest_on({.data = 3, .strategy = sharded_gradients}, name + "cut"), expected) << name;
    shared_memory_ranks_ = 0;
    recipe_.parallel.bucket_mib = 0;
    EXPECT_EQ(digest_on({.data = 3, .tensor = 2, .strategy = sharded}, name + "tensor"), expected) << name;
    EXPECT_EQ(digest_on({.data = 3, .pipeline = 2, .strategy = sharded_gradients}, name + "stages"), expected) << name;
  }
}

TEST_F(Composed, CodesOfChangesGoOnWithWhatTheyLackAfterAResume) {
  recipe_.parallel.compression.of_parameters = true;
  for (const char* optimizer : {"adamw", "lamb"}) {
    recipe_.optim.name = optimizer;
    const auto name = std::string(optimizer);
    const auto whole = digest_on({.data = 2, .strategy = parallel::Strategy::sharded_gradients}, name);
    EXPECT_EQ(run(2, name + "cut", 2), Outcome::stopped);
    EXPECT_EQ(digest_on({.data = 2, .tensor = 2, .strategy = parallel::Strategy::sharded_gradients}, name + "cut"),
              whole);
  }
}

TEST_F(Composed, CodesOfChangesMayBeginAndEndAtAResume) {
  recipe_.train.steps = 20;
  use({.data = 2, .strategy = parallel::Strategy::sharded});
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);
  recipe_.parallel.compression.of_parameters = true;
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);
  EXPECT_EQ(run(3, "cut", 1), Outcome::stopped);
  EXPECT_EQ(run(1, "cut", 1), Outcome::stopped);
  recipe_.parallel.compression.of_parameters = false;
  EXPECT_TRUE(std::isfinite(last_loss("cut", 2)));
}

TEST_F(Composed, CodesOfPartsGiveTheBytesOfReplicas) {
  for (const auto codec : {Compression::int8, Compression::powersgd}) {
    recipe_.parallel.compression.encoding = codec;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    const auto expected = digest_on({}, name);
    int number = 0;
    for (const Product& product :
         {Product{.pipeline = 2}, Product{.tensor = 2}, Product{.context = 2},
          Product{.pipeline = 2, .tensor = 2, .strategy = parallel::Strategy::sharded_gradients},
          Product{.tensor = 2, .context = 2, .strategy = parallel::Strategy::sharded_parameters}})
      EXPECT_EQ(digest_on(product, fmt::format("{}{}", name, ++number)), expected) << name << ", product " << number;
  }
}

TEST_F(Composed, AResumeUnderAnotherProductOfAsManyReplicasGivesTheSameBytes) {
  recipe_.train.steps = 8;
  const auto whole = digest_on({}, "whole");
  use({.strategy = parallel::Strategy::sharded_parameters});
  EXPECT_EQ(run(2, "cut", 1), Outcome::stopped);
  use({.pipeline = 2});
  EXPECT_EQ(run(4, "cut", 1), Outcome::stopped);
  use({.tensor = 2, .context = 2});
  EXPECT_EQ(run(8, "cut", 1), Outcome::stopped);
  EXPECT_EQ(digest_on({.strategy = parallel::Strategy::sharded}, "cut"), whole);
  EXPECT_EQ(ranks_of_residuals("cut"), 2);
}

TEST_F(Composed, AResumeMayHaveOtherReplicas) {
  recipe_.train.steps = 8;
  use({.data = 3, .strategy = parallel::Strategy::sharded});
  EXPECT_EQ(run(3, "cut", 2), Outcome::stopped);
  use({.data = 2, .tensor = 2});
  EXPECT_EQ(run(4, "cut", 1), Outcome::stopped);
  EXPECT_EQ(ranks_of_residuals("cut"), 2);
  EXPECT_TRUE(std::isfinite(last_loss("cut", 6)));
}

/// A gpt with clipping, 16 bits, shards and codes at once.
TEST_F(Composed, LearnAsWellAsWithoutCodes) {
  recipe_.train.steps = 30;
  recipe_.model.dropout = 0;
  for (const char* precision : {"bf16", "fp16"}) {
    recipe_.kernels.precision = precision;
    use({.strategy = parallel::Strategy::sharded_gradients});
    recipe_.parallel.compression.encoding = Compression::none;
    const double plain = last_loss(fmt::format("plain-{}", precision), 2);
    EXPECT_LT(plain, 1.4);
    for (const auto codec : {Compression::bf16, Compression::int8}) {
      recipe_.parallel.compression.encoding = codec;
      const auto name = fmt::format("{}-{}", recipe_.parallel.compression.encoding.name(), precision);
      EXPECT_NEAR(last_loss(name, 2), plain, 0.03 * plain) << name;
      recipe_.parallel.compression.of_parameters = true;
      EXPECT_NEAR(last_loss(name + "-changes", 2), plain, 0.03 * plain) << name;
      recipe_.parallel.compression.of_parameters = false;
    }
  }
}

TEST_F(Composed, AScaleOfTheLossLeavesCodesAsTheyAre) {
  recipe_.kernels.precision = "fp16";
  for (const auto codec : {Compression::int8, Compression::topk, Compression::powersgd}) {
    recipe_.parallel.compression.encoding = codec;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    const auto whole = digest_on({.data = 3}, "whole-" + name);
    EXPECT_EQ(run(3, "cut-" + name, 2), Outcome::stopped);
    EXPECT_EQ(digest_on({.data = 3, .strategy = parallel::Strategy::sharded}, "cut-" + name), whole) << name;
  }
}

/// With weights as large as such a learning rate makes them, gradients of activations overflow 16 bits at the first
/// scales.
TEST_F(Composed, AnOverflowDropsResidualsAndTheRunGoesOn) {
  recipe_.data.train = set().string();
  recipe_.model = {.name = "mlp", .hidden = {24}};
  recipe_.kernels.precision = "fp16";
  recipe_.parallel = {.microbatches = 2, .microbatch_size = 1};
  recipe_.optim = {.learning_rate = 0.3};
  recipe_.train.steps = 30;
  for (const auto codec : {Compression::int8, Compression::onebit, Compression::powersgd}) {
    recipe_.parallel.compression = {.encoding = codec, .rank = 2, .warmup_steps = 0};
    recorder_.steps.clear();
    EXPECT_EQ(run(2, std::string(recipe_.parallel.compression.encoding.name())), Outcome::finished);
    EXPECT_GT(std::ranges::count_if(recorder_.steps, &records::StepDone::skipped), 0) << "else this shows nothing";
    EXPECT_FALSE(recorder_.steps.back().skipped);
    for (const auto& step : recorder_.steps) EXPECT_TRUE(std::isfinite(*step.loss));
  }
}

TEST_F(Composed, GroupsOfLocalSgdHaveOneScaleOfTheLoss) {
  recipe_.data.train = set().string();
  recipe_.model = {.name = "mlp", .hidden = {24}};
  recipe_.kernels.precision = "fp16";
  recipe_.parallel = {.strategy = parallel::Strategy::local_sgd, .microbatches = 4, .microbatch_size = 1};
  recipe_.parallel.local_sgd.groups = 2;
  recipe_.parallel.local_sgd.steps = 3;
  recipe_.optim = {.learning_rate = 0.3};
  recipe_.train.steps = 30;
  const auto one = digest_of(1, "one");
  EXPECT_GT(std::ranges::count_if(recorder_.steps, &records::StepDone::skipped), 0) << "else this shows nothing";
  EXPECT_FALSE(recorder_.steps.back().skipped);
  for (const int ranks : {2, 4}) EXPECT_EQ(digest_of(ranks, fmt::format("{}", ranks)), one) << ranks << " ranks";
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);
  EXPECT_EQ(digest_of(1, "cut"), one);
}

TEST_F(Composed, AuditsOfCodedStepsFindFlipsAndRaiseNoFalseAlarm) {
  recipe_.train.audit_every = 2;
  recipe_.checkpoint.every = 1;
  recipe_.checkpoint.mode = "sync";
  use({.data = 3});
  for (const auto codec : {Compression::int8, Compression::powersgd}) {
    recipe_.parallel.compression.encoding = codec;
    const auto name = std::string(recipe_.parallel.compression.encoding.name());
    recipe_.train.audit_every = 0;
    const auto expected = digest_of(3, "off-" + name);
    recipe_.train.audit_every = 2;
    EXPECT_EQ(digest_of(3, "on-" + name), expected);
    EXPECT_THAT(recorder_.corrupted, IsEmpty());
    for (const char* flip : {"parameters:1:3", "gradients:2:2"}) {
      bit_flip_ = bit_flip_from(flip);
      EXPECT_THAT(error_of(3, fmt::format("{}-{}", name, flip)), HasSubstr("silent corruption")) << flip;
      bit_flip_.reset();
      EXPECT_EQ(digest_of(3, fmt::format("{}-{}", name, flip)), expected);
    }
    recorder_.corrupted.clear();
  }
}

/// A line of a job file, and what it does to a recipe.
struct Line {
  std::string text;
  std::function<void(Recipe&)> set;
  std::int64_t devices = 1;
};
/// Lines of one kind exclude each other in any case.
std::vector<std::vector<Line>> all_lines() {
  std::vector<std::vector<Line>> all(1);
  for (const auto& row : parallel::kStrategies)
    if (row.name.value != parallel::Strategy::replicas)
      all.back().push_back({fmt::format("parallel.strategy = \"{}\"", row.name.name),
                            [value = row.name.value](Recipe& recipe) { recipe.parallel.strategy = value; }});
  all.emplace_back();
  for (const auto& row : parallel::kEncodings)
    if (row.name.value != Compression::none)
      all.back().push_back(
          {fmt::format("parallel.compression = \"{}\"", row.name.name),
           [value = row.name.value](Recipe& recipe) { recipe.parallel.compression.encoding = value; }});
  all.emplace_back();
  for (const char* precision : {"bf16", "fp16"})
    all.back().push_back({fmt::format("kernels.precision = \"{}\"", precision),
                          [=](Recipe& recipe) { recipe.kernels.precision = precision; }});
  all.push_back({{"optim.clip_norm", [](Recipe& recipe) { recipe.optim.clip_norm = 1; }}});
  all.push_back({{"optim.ema_decay", [](Recipe& recipe) { recipe.optim.ema_decay = 0.9; }}});
  all.push_back({{"train.audit_every", [](Recipe& recipe) { recipe.train.audit_every = 2; }}});
  all.push_back({{"parallel.pipeline_ranks", [](Recipe& recipe) { recipe.parallel.pipeline_ranks = 2; }}});
  all.push_back({{"parallel.tensor_ranks", [](Recipe& recipe) { recipe.parallel.tensor_ranks = 2; }}});
  all.push_back({{"parallel.context_ranks", [](Recipe& recipe) { recipe.parallel.context_ranks = 2; }}});
  all.push_back({{"kernels.backend = \"cuda\"", [](Recipe& recipe) { recipe.kernels.backend = "cuda"; }}});
  all.push_back({{"kernels.deterministic = false", [](Recipe& recipe) { recipe.kernels.deterministic = false; }}});
  all.push_back({{"run.devices_per_rank", [](Recipe&) {}, 2}});
  return all;
}

bool is_refused(const Recipe& recipe, std::int64_t devices = 1) {
  try {
    check(recipe);
    check_devices(recipe, devices);
  } catch (const ConfigError&) {
    return true;
  }
  return false;
}

using Pair = std::pair<std::string, std::string>;
Pair ordered(std::string one, std::string other) {
  if (other < one) std::swap(one, other);
  return {std::move(one), std::move(other)};
}

/// The pairs of lines that the table of the docs names: the rows with three cells, after its heading.
std::set<Pair> documented_refusals() {
  std::ifstream file(DISTDL_SOURCE_DIR "/docs/training-modes.md");
  std::set<Pair> pairs;
  std::string line;
  while (std::getline(file, line) && line != "## What excludes what") {
  }
  const auto lines_of = [](const std::string& cell) {
    static const std::regex code("`([^`]+)`");
    std::vector<std::string> lines;
    for (std::sregex_iterator it(cell.begin(), cell.end(), code), end; it != end; ++it) lines.push_back((*it)[1]);
    return lines;
  };
  while (std::getline(file, line) && !line.starts_with("## ")) {
    if (!line.starts_with("| `")) continue;
    const auto second = line.find('|', 1), third = line.find('|', second + 1);
    for (const auto& one : lines_of(line.substr(0, second)))
      for (const auto& other : lines_of(line.substr(second, third - second))) pairs.insert(ordered(one, other));
  }
  return pairs;
}

std::string text_of(const std::set<Pair>& pairs) {
  std::string text;
  for (const auto& [one, other] : pairs) text += fmt::format("{} with {}\n", one, other);
  return text;
}

TEST(Refusals, AreThoseOfTheTableInTheDocs) {
  const auto all = all_lines();
  std::set<Pair> refused;
  Recipe plain;
  plain.data.train = "a";
  plain.parallel.tensor_shards = plain.parallel.context_chunks = 2;
  ASSERT_FALSE(is_refused(plain));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const Line& one : all[i]) {
      Recipe alone = plain;
      one.set(alone);
      EXPECT_FALSE(is_refused(alone, one.devices)) << one.text;
      for (std::size_t j = i + 1; j < all.size(); ++j)
        for (const Line& other : all[j]) {
          Recipe both = alone;
          other.set(both);
          if (is_refused(both, std::max(one.devices, other.devices))) refused.insert(ordered(one.text, other.text));
        }
    }
  EXPECT_EQ(text_of(refused), text_of(documented_refusals())) << refused.size() << " pairs are refused";
}

/// Combinations of values such that any two values of two factors are together in one of them at least.
std::vector<std::vector<std::size_t>> covering_array(const std::vector<std::size_t>& sizes) {
  std::set<std::array<std::size_t, 4>> missing;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::size_t j = i + 1; j < sizes.size(); ++j)
      for (std::size_t a = 0; a < sizes[i]; ++a)
        for (std::size_t b = 0; b < sizes[j]; ++b) missing.insert({i, a, j, b});
  std::vector<std::vector<std::size_t>> rows;
  while (!missing.empty()) {
    constexpr std::size_t kOpen = ~std::size_t{0};
    std::vector<std::size_t> row(sizes.size(), kOpen);
    const auto [i, a, j, b] = *missing.begin();
    row[i] = a, row[j] = b;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      if (row[k] != kOpen) continue;
      std::size_t best = 0;
      int most = -1;
      for (std::size_t value = 0; value < sizes[k]; ++value) {
        int gained = 0;
        for (std::size_t other = 0; other < sizes.size(); ++other)
          if (other != k && row[other] != kOpen)
            gained += static_cast<int>(other < k ? missing.contains({other, row[other], k, value})
                                                 : missing.contains({k, value, other, row[other]}));
        if (gained > most) most = gained, best = value;
      }
      row[k] = best;
    }
    for (std::size_t k = 0; k < sizes.size(); ++k)
      for (std::size_t other = k + 1; other < sizes.size(); ++other) missing.erase({k, row[k], other, row[other]});
    rows.push_back(row);
  }
  return rows;
}

/// Each combination runs, or the table refuses it. What runs has the same bytes after a stop or a crash, and a resume
/// on one device a rank, under another strategy where that changes no bit, and without codes on other numbers of ranks.
/// DISTDL_LONG=1 takes all combinations, else a share that changes from day to day, or that DISTDL_SHARE names.
TEST_F(Composed, EachPairRunsAndRepeatsItsBytesOrIsRefused) {
  using enum parallel::Strategy;
  static constexpr std::array kWays{replicas,           sharded,   sharded_gradients,
                                    sharded_parameters, local_sgd, parameter_server};
  static constexpr std::array kCodecs{Compression::none, Compression::bf16, Compression::int8, Compression::onebit,
                                      Compression::powersgd};
  static constexpr std::array kPrecisions{"fp32", "bf16", "fp16"};
  static const std::array kProducts{Product{}, Product{.pipeline = 2}, Product{.tensor = 2}, Product{.context = 2}};
  static constexpr std::array kOptimizers{"adamw", "sgd"};
  const std::vector<std::size_t> sizes{kWays.size(),     kCodecs.size(), kPrecisions.size(), 2, 2,
                                       kProducts.size(), kWays.size(),   kOptimizers.size(), 2, 2};
  // In each round other values are together, so that what is refused in one has its other pairs in the next.
  constexpr std::size_t kRounds = 8;
  std::vector<std::vector<std::size_t>> rows;
  for (std::size_t round = 0; round < kRounds; ++round)
    for (auto row : covering_array(sizes)) {
      for (std::size_t k = 0; k < row.size(); ++k) row[k] = (row[k] + round * (k / 2 + 1)) % sizes[k];
      rows.push_back(row);
    }
  constexpr std::int64_t kShares = 48;
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch().count();
  const bool is_long = env_integer("DISTDL_LONG").value_or(0) == 1;
  const auto share = static_cast<std::size_t>(env_integer("DISTDL_SHARE").value_or(today % kShares));
  int ran = 0, refused = 0;
  std::set<std::array<std::size_t, 4>> together;
  const Recipe plain = recipe_;
  for (std::size_t number = 0; number < rows.size(); ++number) {
    if (!is_long && number % std::size_t{kShares} != share % std::size_t{kShares}) continue;
    const auto& row = rows[number];
    Product product = kProducts[row[5]];
    product.strategy = kWays[row[0]];
    recipe_ = plain;
    use(product);
    recipe_.parallel.compression.encoding = kCodecs[row[1]];
    recipe_.kernels.precision = kPrecisions[row[2]];
    recipe_.optim.name = kOptimizers[row[7]];
    recipe_.optim.clip_norm = row[3] == 0 ? 0 : 0.5;
    recipe_.train.audit_every = row[4] == 0 ? 0 : 2;
    recipe_.train.steps = 4;
    recipe_.train.evaluate_every = 0;
    const auto sends_changes = [](const Recipe& recipe) {
      const auto way = recipe.parallel.strategy;
      return recipe.parallel.compression.encoding == Compression::bf16 && (way == sharded || way == sharded_gradients);
    };
    recipe_.parallel.compression.of_parameters = sends_changes(recipe_);
    recipe_.parallel.local_sgd.groups = 2;
    recipe_.parallel.local_sgd.steps = 2;
    recipe_.parallel.servers.mode = parallel::server::Mode::synchronous;
    const OneOf other_way(kWays[row[6]]);
    devices_ = static_cast<int>(1 + row[8]);
    SCOPED_TRACE(fmt::format("{}: {} with {}, {}, {}, clip {}, audits {}, product {}, resumed as {}, {} devices, {}",
                             number, recipe_.parallel.strategy, recipe_.parallel.compression.encoding,
                             kPrecisions[row[2]], kOptimizers[row[7]], row[3], row[4], row[5], other_way.name(),
                             devices_, row[9] == 0 ? "stop" : "crash"));
    if (is_refused(recipe_, devices_)) {
      ++refused;
      continue;
    }
    ++ran;
    for (std::size_t i = 0; i < row.size(); ++i)
      for (std::size_t j = i + 1; j < row.size(); ++j) together.insert({i, row[i], j, row[j]});
    const auto name = fmt::format("{}", number);
    const auto whole = digest_of(product.ranks(), name + "whole");
    const auto is_sync = [](parallel::Strategy way) { return way != local_sgd && way != parameter_server; };
    if (row[9] == 1 && is_sync(product.strategy)) {
      recipe_.checkpoint.every = 1;
      crash_at_ = 2;
      EXPECT_THROW(run(product.ranks(), name + "cut"), std::runtime_error);
      crash_at_ = -1;
    } else {
      EXPECT_EQ(run(product.ranks(), name + "cut", 1), Outcome::stopped);
    }
    devices_ = 1;
    const bool repeats = recipe_.parallel.strategy != parameter_server || kCodecs[row[1]] == Compression::none;
    // Held moments and pushes of workers are those of one way only.
    const bool is_exact = kCodecs[row[1]] == Compression::none;
    Recipe other = recipe_;
    other.parallel.strategy = kWays[row[6]];
    const bool holds = kCodecs[row[1]] == Compression::onebit && row[3] == 0 && row[7] == 0;
    if (is_sync(product.strategy) && is_sync(kWays[row[6]]) && !holds && !is_refused(other) &&
        sends_changes(other) == sends_changes(recipe_))
      recipe_ = other;
    const int ranks = is_exact && is_sync(product.strategy) ? 3 * product.ranks() / 2 : product.ranks();
    EXPECT_EQ(run(ranks, name + "cut"), Outcome::finished);
    if (repeats) {
      EXPECT_EQ(digest(name + "cut"), whole);
    }
  }
  std::printf("%zu combinations; of this share %d ran, with %zu pairs, and %d are refused\n", rows.size(), ran,
              together.size(), refused);
  EXPECT_GT(ran, 0);
}
}  // namespace
}  // namespace distdl::train
