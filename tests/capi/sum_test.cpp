// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>
#include <mutex>
#include <random>
#include <set>

#include "tests/capi/capi_fixture.hpp"

namespace distdl::capi {
namespace {

class Sums : public CApiTest {
 public:
  struct Case {
    int leaves, type, reduction = DISTDL_SUM;
  };
  /// The bytes of these sums, which must be the same on all ranks.
  std::vector<std::string> sums_on(int ranks, const std::vector<Case>& cases) {
    std::set<std::vector<std::string>> results;
    std::mutex mutex;
    on_ranks(ranks, [&](distdl_comm* comm) {
      std::vector<std::string> mine;
      for (const auto& [leaves, type, reduction] : cases) {
        distdl_sum* sum = nullptr;
        DISTDL_SUCCEEDS(distdl_sum_create(comm, kCount, type, reduction, leaves, 0, -1, &sum));
        std::string result;
        for (int step = 0; step < 2; ++step) result = step_of(sum, type);
        DISTDL_SUCCEEDS(distdl_sum_close(sum));
        mine.push_back(result);
      }
      const std::lock_guard lock(mutex);
      results.insert(mine);
    });
    EXPECT_EQ(1U, results.size());
    return results.empty() ? std::vector<std::string>() : *results.begin();
  }
  std::string sum_on(int ranks, int leaves, int type, int reduction = DISTDL_SUM) {
    return sums_on(ranks, {{leaves, type, reduction}}).at(0);
  }

 protected:
  static constexpr std::size_t kCount = 101;

  static std::string step_of(distdl_sum* sum, int type) {
    int first = 0, own = 0;
    EXPECT_EQ(DISTDL_OK, distdl_sum_leaves(sum, &first, &own));
    for (int leaf = first; leaf < first + own; ++leaf)
      EXPECT_EQ(DISTDL_OK, distdl_sum_add(sum, leaf_of(leaf, type).data())) << distdl_error_text();
    std::string result(kCount * distdl_type_size(type), '\0');
    EXPECT_EQ(DISTDL_OK, distdl_sum_all_reduce(sum, result.data(), nullptr)) << distdl_error_text();
    return result;
  }

  /// Numbers of very different sizes, whose sum depends on the order.
  static std::string leaf_of(int leaf, int type) {
    std::mt19937 random(static_cast<unsigned>(leaf));
    std::string bytes;
    for (std::size_t i = 0; i < kCount; ++i) {
      const float value = std::ldexp(static_cast<float>(random() % 2001) - 1000, static_cast<int>(random() % 12) - 6);
      append(bytes, type, value);
    }
    return bytes;
  }
  static void append(std::string& bytes, int type, float value) {
    const auto add = [&](auto number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof number); };
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (type == DISTDL_F32) return add(value);
    if (type == DISTDL_F64) return add(value / 3.0);
    if (type == DISTDL_BF16) return add(static_cast<std::uint16_t>(bits >> 16));
    if (type == DISTDL_F16)  // 2^-1 to 2^0, with another fraction each
      return add(static_cast<std::uint16_t>(0x3800 | ((bits >> 13) & 0x3FF)));
    if (type == DISTDL_I32) return add(static_cast<std::int32_t>(value * 64));
    add(static_cast<std::int64_t>(value * 64));
  }
};

TEST_F(Sums, HaveTheSameBitsOnAnyNumberOfRanks) {
  std::vector<Case> cases;
  for (const int type : {DISTDL_F32, DISTDL_F64, DISTDL_F16, DISTDL_BF16, DISTDL_I32, DISTDL_I64})
    for (const int leaves : {1, 6, 13}) cases.push_back({leaves, type});
  const auto alone = sums_on(1, cases);
  for (const int ranks : {2, 3, 8}) EXPECT_EQ(alone, sums_on(ranks, cases)) << ranks << " ranks";
}

TEST_F(Sums, FollowTheTreeOfTheRanksThemselves) {
  const auto by_ranks = [&] {
    std::string result(kCount * 4, '\0');
    std::mutex mutex;
    on_ranks(5, [&](distdl_comm* comm) {
      auto values = leaf_of(rank_of(comm), DISTDL_F32);
      DISTDL_SUCCEEDS(distdl_all_reduce(comm, nullptr, values.data(), kCount, DISTDL_F32, DISTDL_SUM, nullptr));
      const std::lock_guard lock(mutex);
      result = values;
    });
    return result;
  }();
  EXPECT_EQ(by_ranks, sum_on(2, 5, DISTDL_F32));
}

TEST_F(Sums, AreAveraged) {
  EXPECT_EQ(sum_on(1, 6, DISTDL_F32, DISTDL_AVERAGE), sum_on(3, 6, DISTDL_F32, DISTDL_AVERAGE));
  EXPECT_NE(sum_on(1, 6, DISTDL_F32), sum_on(1, 6, DISTDL_F32, DISTDL_AVERAGE));
}

TEST_F(Sums, OfComplexNumbersAreThoseOfTheirParts) {
  const std::string leaves = leaf_of(0, DISTDL_F32) + leaf_of(1, DISTDL_F32);
  on_ranks(2, [&](distdl_comm* comm) {
    std::string slices[2];
    for (const int type : {DISTDL_F32, DISTDL_C64}) {
      const std::size_t parts = type == DISTDL_C64 ? 2 : 1;
      const std::vector<std::size_t> counts{2 / parts, (2 * kCount - 2) / parts};
      distdl_sum* sum = nullptr;
      DISTDL_SUCCEEDS(distdl_sum_create(comm, 2 * kCount / parts, type, DISTDL_SUM, 4, 0, -1, &sum));
      for (int leaf = 0; leaf < 2; ++leaf) DISTDL_SUCCEEDS(distdl_sum_add(sum, leaves.data()));
      std::string& slice = slices[parts - 1];
      slice.resize(4 * parts * counts[rank_of(comm)]);
      DISTDL_SUCCEEDS(distdl_sum_reduce_scatter(sum, slice.data(), counts.data(), nullptr));
      DISTDL_SUCCEEDS(distdl_sum_close(sum));
    }
    EXPECT_EQ(slices[0], slices[1]);
  });
}

TEST_F(Sums, NeedNoCommunicatorInOneProcess) {
  distdl_sum* sum = nullptr;
  DISTDL_SUCCEEDS(distdl_sum_create(nullptr, kCount, DISTDL_F32, DISTDL_SUM, 13, 0, 13, &sum));
  EXPECT_EQ(sum_on(3, 13, DISTDL_F32), step_of(sum, DISTDL_F32));
  DISTDL_SUCCEEDS(distdl_sum_close(sum));
}

TEST_F(Sums, MayBeUnevenAndDivided) {
  const auto whole = sum_on(1, 7, DISTDL_F32);
  on_ranks(2, [&](distdl_comm* comm) {
    const int rank = rank_of(comm);
    distdl_sum* sum = nullptr;  // rank 1 has the first leaves
    DISTDL_SUCCEEDS(
        distdl_sum_create(comm, kCount, DISTDL_F32, DISTDL_SUM, 7, rank == 1 ? 0 : 5, rank == 1 ? 5 : 2, &sum));
    int first = 0, own = 0;
    DISTDL_SUCCEEDS(distdl_sum_leaves(sum, &first, &own));
    for (int leaf = first; leaf < first + own; ++leaf)
      DISTDL_SUCCEEDS(distdl_sum_add(sum, leaf_of(leaf, DISTDL_F32).data()));
    const std::vector<std::size_t> counts{1, kCount - 1};
    std::string slice(4 * counts[rank], '\0');
    distdl_request* request = nullptr;
    DISTDL_SUCCEEDS(distdl_sum_reduce_scatter(sum, slice.data(), counts.data(), &request));
    DISTDL_SUCCEEDS(distdl_wait(&request, -1));
    EXPECT_EQ(whole.substr(rank == 0 ? 0 : 4, slice.size()), slice);
    DISTDL_SUCCEEDS(distdl_sum_close(sum));
  });
}

TEST_F(Sums, RefuseLeavesThatDoNotFit) {
  on_ranks(2, [&](distdl_comm* comm) {
    distdl_sum* sum = nullptr;
    expect_error(distdl_sum_create(comm, 1, DISTDL_F32, DISTDL_SUM, 4, 0, 2, &sum), DISTDL_INVALID,
                 {"distdl_sum_create", "leaf 0 belongs to several ranks"});
    expect_error(distdl_sum_create(comm, 1, DISTDL_F32, DISTDL_SUM, 4, rank_of(comm), 1, &sum), DISTDL_INVALID,
                 {"leaf 2 belongs to no rank"});
    expect_error(distdl_sum_create(comm, 1 + rank_of(comm), DISTDL_F32, DISTDL_SUM, 4, 0, -1, &sum), DISTDL_INVALID,
                 {"gave other leaves, count"});
    EXPECT_EQ(nullptr, sum);
  });
}

TEST_F(Sums, RefuseCallsInTheWrongOrder) {
  distdl_sum* sum = nullptr;
  DISTDL_SUCCEEDS(distdl_sum_create(nullptr, 1, DISTDL_F32, DISTDL_SUM, 2, 0, 2, &sum));
  float value = 1;
  expect_error(distdl_sum_all_reduce(sum, &value, nullptr), DISTDL_STATE, {"0 of 2 leaves"});
  DISTDL_SUCCEEDS(distdl_sum_add(sum, &value));
  DISTDL_SUCCEEDS(distdl_sum_add(sum, &value));
  expect_error(distdl_sum_add(sum, &value), DISTDL_STATE, {"all 2 leaves"});
  DISTDL_SUCCEEDS(distdl_sum_all_reduce(sum, &value, nullptr));
  EXPECT_EQ(2, value);
  DISTDL_SUCCEEDS(distdl_sum_close(sum));
}

}  // namespace
}  // namespace distdl::capi
