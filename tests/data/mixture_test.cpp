// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/mixture.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/data/text_import.hpp>

namespace distdl::data {
namespace {
using testing::HasSubstr;

TEST(Shares, GiveEachSetItsPositionsOneAfterTheOther) {
  for (const std::vector<std::int64_t>& weights :
       {std::vector<std::int64_t>{1}, {1, 1}, {7, 2, 1}, {1, 1000}, {5, 1, 5, 1, 3}}) {
    const Shares shares(weights);
    const auto all = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
    std::vector<std::int64_t> used(weights.size());
    for (std::int64_t position = 0; position < 3 * all; ++position) {
      const auto [set, own] = shares.at(position);
      ASSERT_EQ(own, used[set]++) << "set " << set << " skips or repeats something at " << position;
      for (std::size_t i = 0; i < weights.size(); ++i)
        ASSERT_NEAR(static_cast<double>(used[i]),
                    static_cast<double>((position + 1) * weights[i]) / static_cast<double>(all),
                    static_cast<double>(weights.size()));
    }
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(used[i], 3 * weights[i]);
  }
}

TEST(Shares, AreExactFarOut) {
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  const Shares shares({3, 1});
  std::map<std::size_t, std::int64_t> last;
  for (std::int64_t position = kFar; position < kFar + 100; ++position) {
    const auto [set, own] = shares.at(position);
    if (const auto before = last.find(set); before != last.end()) {
      EXPECT_EQ(own, before->second + 1);
    }
    last[set] = own;
  }
  EXPECT_NEAR(static_cast<double>(last[0]), 0.75 * std::pow(2, 60), 1000);
}

class Mixtures : public testing::Test {
 protected:
  Mixtures() {
    for (const char letter : {'a', 'b', 'c'}) {
      write_file(folder_ / "text", std::string(100, letter));
      import_text(folder_ / "text", folder_ / std::string{letter, '.', 'h', '5'}, Overwrite::refuse);
    }
    options_.sets = {(folder_ / "a.h5").string(), (folder_ / "b.h5").string()};
    options_.weights = {3, 1};
  }
  std::string refusal() {
    try {
      open_sources(options_, 4, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  ScratchFolder folder_;
  Options options_;
};

TEST_F(Mixtures, HaveEachSampleOfEachSetOnceInItsEpoch) {
  write_file(folder_ / "text", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
  import_text(folder_ / "text", folder_ / "b.h5", Overwrite::replace);
  const auto sources = open_sources(options_, 1, 1);
  auto& mixture = *sources.training;
  ASSERT_TRUE(mixture.has_own_order());
  const std::int64_t own = 35;  // windows of the second set
  std::map<std::int32_t, int> seen;
  Batch batch;
  std::int64_t of_second = 0;
  for (std::int64_t position = 0; of_second < own; ++position) {
    mixture.read(std::vector<Source::Pick>{{position / mixture.samples(), position % mixture.samples()}}, batch);
    ASSERT_EQ(batch.tokens.size(), 1u);
    if (batch.tokens[0] == 'a') continue;
    ++seen[batch.tokens[0]];
    ++of_second;
  }
  EXPECT_GE(std::ssize(seen), own);
  for (const auto& [letter, times] : seen) EXPECT_EQ(times, 1) << static_cast<char>(letter);
  EXPECT_EQ(mixture.samples(), 99 + own);
}

TEST_F(Mixtures, PutEachSampleInItsPlace) {
  const auto sources = open_sources(options_, 4, 1);
  std::vector<Source::Pick> picks(12);
  for (std::size_t i = 0; i < picks.size(); ++i) picks[i].index = static_cast<std::int64_t>(i);
  Batch together, alone;
  sources.training->read(picks, together);
  for (std::size_t i = 0; i < picks.size(); ++i) {
    sources.training->read(std::span(picks).subspan(i, 1), alone);
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(together.tokens[4 * i + k], alone.tokens[k]);
      EXPECT_EQ(together.labels[4 * i + k], alone.labels[k]);
    }
  }
  EXPECT_EQ(std::ranges::count(together.tokens, 'b'), 3 * 4);
}

TEST_F(Mixtures, DifferByTheirSetsAndWeights) {
  const auto digest = [this] { return open_sources(options_, 4, 1).training->digest(); };
  const auto first = digest();
  EXPECT_EQ(first, digest());
  options_.weights = {1, 3};
  EXPECT_NE(first, digest());
  options_.weights = {3, 1};
  options_.sets[1] = (folder_ / "c.h5").string();
  EXPECT_NE(first, digest());
  options_.validation = (folder_ / "b.h5").string();
  EXPECT_EQ(open_sources(options_, 4, 1).files.size(), 3u) << "all are watched";
}

TEST_F(Mixtures, AreRefusedWhereTheyDoNotFit) {
  options_.weights = {3};
  EXPECT_THAT(refusal(), HasSubstr("names 2 data sets, but data.weights has 1 numbers"));
  options_.weights = {3, 0};
  EXPECT_THAT(refusal(), HasSubstr("data.weights has 0, but"));
  options_.weights = {3, 1};
  options_.holdout = 5;
  EXPECT_THAT(refusal(), HasSubstr("excludes data.holdout"));
  options_.holdout = 0;
  options_.train = options_.sets[0];
  EXPECT_THAT(refusal(), HasSubstr("stands in place of data.train"));
  options_.train.clear();
  options_.sets[1] = (folder_ / "images.h5").string();
  write_small_images(options_.sets[1], 8);
  EXPECT_THAT(refusal(), HasSubstr("the sets of a mixture must agree"));
}

}  // namespace
}  // namespace distdl::data
