// SPDX-License-Identifier: Apache-2.0
// R2: what N ranks saved, M ranks restore, byte for byte, cut along rows or as a grid.
#include <gtest/gtest.h>

#include "tests/checkpoint/sample.hpp"

namespace distdl::checkpoint {
namespace {
#ifdef DISTDL_SANITIZED
constexpr int kSizes[] = {1, 3, 8};
#else
constexpr int kSizes[] = {1, 2, 3, 4, 6, 8};
#endif

class Reshard : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Reshard, GivesTheSameBytes) {
  auto [writers, readers] = GetParam();
  Sample sample = make_sample(1, 67'000);  // the largest tensor has two blocks
  for (bool grid : {false, true}) {
    TemporaryFolder root;
    ASSERT_TRUE(all_empty(save_as(root.path(), writers, Step(12), sample, grid)));
    auto errors = ThreadGroups(readers).run([&, size = readers](Group& group) {
      Store store(root.path(), {});
      auto summary = store.newest_valid(group);
      if (!summary) throw std::runtime_error("nothing is found");
      for (bool other_grid : {false, true}) {
        std::string wrong = compare(store, *summary, sample, size, other_grid);
        if (!wrong.empty()) throw std::runtime_error(wrong);
      }
    });
    for (const auto& error : errors) EXPECT_EQ(error, "");
  }
}
INSTANTIATE_TEST_SUITE_P(R2, Reshard, testing::Combine(testing::ValuesIn(kSizes), testing::ValuesIn(kSizes)),
                         [](const auto& test) {
                           return std::to_string(std::get<0>(test.param)) + "To" +
                                  std::to_string(std::get<1>(test.param));
                         });
}  // namespace
}  // namespace distdl::checkpoint
