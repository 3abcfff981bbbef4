// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/stages.hpp>

// What a refusal suggests is accepted.
namespace distdl::parallel {
namespace {
std::string plan_refusal(const Options& options, int ranks, int most_stages) try {
  degrees_of(options, ranks, most_stages);
  return "";
} catch (const ConfigError& error) {
  return error.what();
}

std::vector<std::int64_t> whole_numbers(const std::string& text) {
  static const std::regex number("[0-9]+");
  std::vector<std::int64_t> found;
  for (std::sregex_iterator each(text.begin(), text.end(), number), end; each != end; ++each)
    found.push_back(std::stoll(each->str()));
  return found;
}

/// The keys of ranks that are not 1, in the order of a refusal.
std::vector<std::int64_t*> keys_of_ranks(Options& options) {
  std::vector<std::int64_t*> keys;
  for (auto* const key : {&options.pipeline_ranks, &options.context_ranks, &options.tensor_ranks})
    if (*key > 1) keys.push_back(key);
  if (keys.empty()) keys.push_back(&options.pipeline_ranks);
  return keys;
}

/// "...; start 6 ranks with parallel.pipeline_ranks = 3 and parallel.tensor_ranks = 2"
void follow_ranks(const std::string& text, Options& options, int& ranks) {
  static const std::regex key("parallel.(pipeline|context|tensor)_ranks = ([0-9]+)");
  ranks = static_cast<int>(whole_numbers(text).front());
  for (std::sregex_iterator each(text.begin(), text.end(), key), end; each != end; ++each) {
    const auto which = (*each)[1].str();
    (which == "pipeline"  ? options.pipeline_ranks
     : which == "context" ? options.context_ranks
                          : options.tensor_ranks) = std::stoll((*each)[2].str());
  }
}

/// Whether the refusal has a suggestion, which is then in `options` and `ranks`.
bool follow(const std::string& refusal, Options& options, int& ranks) {
  const std::string nearest = "the nearest possible number", start = "; start ";
  if (const auto place = refusal.find(nearest); place != std::string::npos) {
    const auto keys = keys_of_ranks(options);
    const auto numbers = whole_numbers(refusal.substr(place));
    if (numbers.size() != keys.size()) return false;
    for (std::size_t i = 0; i < keys.size(); ++i) *keys[i] = numbers[i];
    return true;
  }
  const auto place = refusal.find(start);
  if (place == std::string::npos) return false;
  follow_ranks(refusal.substr(place), options, ranks);
  return true;
}

void expect_that_suggestions_hold(const Options& options, int ranks, int most_stages) {
  const auto refusal = plan_refusal(options, ranks, most_stages);
  if (refusal.empty()) return;
  auto suggested = options;
  int suggested_ranks = ranks;
  ASSERT_TRUE(follow(refusal, suggested, suggested_ranks)) << refusal;
  EXPECT_EQ(plan_refusal(suggested, suggested_ranks, most_stages), "") << ranks << " ranks: " << refusal;
}

TEST(Suggestions, OfNumbersOfRanksAreAccepted) {
  for (int ranks = 1; ranks <= 26; ++ranks)
    for (const std::int64_t pipeline : {1, 2, 3, 4, 8})
      for (const std::int64_t tensor : {1, 2, 3, 4, 6})
        for (const std::int64_t context : {1, 2, 3})
          for (const int most_stages : {1, 2, 3, 5, 12})
            for (const char* schedule : {"1f1b", "interleaved"}) {
              Options options{.recompute = "none", .microbatches = 5, .tensor_shards = 4, .tensor_ranks = tensor};
              options.context_chunks = 3;
              options.context_ranks = context;
              options.pipeline_ranks = pipeline;
              options.schedule = schedule;
              expect_that_suggestions_hold(options, ranks, most_stages);
            }
}

TEST(Suggestions, OfTensorRanksAreThoseThatCanRepeatSums) {
  for (int ranks = 1; ranks <= 26; ++ranks)
    for (const std::int64_t tensor : {2, 4})
      expect_that_suggestions_hold(
          {.recompute = "blocks", .microbatches = 5, .tensor_shards = 4, .tensor_ranks = tensor}, ranks, 1);
  const auto refusal =
      plan_refusal({.recompute = "blocks", .microbatches = 5, .tensor_shards = 4, .tensor_ranks = 4}, 6, 1);
  EXPECT_NE(refusal.find("the nearest possible number is 2"), std::string::npos)
      << refusal << "; 3 divides no 4 shards";
}

TEST(Suggestions, OfPipelinesHaveNotMoreStagesThanTheModel) {
  const auto gpt = model::describe_model({.name = "gpt", .layers = 1, .width = 16, .heads = 2, .context = 16}, {16}, 8);
  const int most = most_stages(gpt);
  for (const std::int64_t interleave : {1, 2, 3, 50}) {
    Options options{.microbatches = 100, .pipeline_ranks = most + 1};
    options.schedule = "interleaved";
    options.interleave = interleave;
    for (int tries = 0; tries < 2; ++tries) {
      try {
        check_stages(options, gpt);
        break;
      } catch (const ConfigError& error) {
        EXPECT_EQ(tries, 0) << "refused after a suggestion: " << error.what();
        const std::string text = error.what();
        options.pipeline_ranks = whole_numbers(text.substr(text.find("the nearest possible number"))).front();
      }
    }
  }
}
}  // namespace
}  // namespace distdl::parallel
