// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/app/bench/bench_comm.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
using Sizes = std::vector<std::size_t>;

TEST(BenchSizes, AreNumbersRangesAndLists) {
  EXPECT_EQ(sizes_from("8"), Sizes{8});
  EXPECT_EQ(sizes_from("3K,1M,2g"), (Sizes{3072, 1 << 20, std::size_t{2} << 30}));
  EXPECT_EQ(sizes_from("64KiB"), Sizes{65536});
  EXPECT_EQ(sizes_from("8:64"), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sizes_from("1K:1M:32"), (Sizes{1024, 32768, 1048576}));
  EXPECT_EQ(sizes_from("64,8:100,16"), (Sizes{8, 16, 32, 64}));
}

TEST(BenchSizes, RefuseWhatIsNoSize) {
  for (const char* text :
       {"", "K", "8x", "8KB2", "-8", "0", "8:", ":8", "8:4", "1:2:1", "1:2:3:4", "8,", "99999999999999999999"})
    EXPECT_THROW(sizes_from(text), UsageError) << text;
}
}  // namespace
}  // namespace distdl::app
