// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/comm/connected_threads.hpp"

namespace distdl::comm {

/// Tests of worlds with some number of ranks, of which so many share memory (0: all).
class WorldShape : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  static void on_ranks(const std::function<void(Communicator&)>& body, Options options = test_options()) {
    options.shared_memory_ranks = GetParam().second;
    on_threads(GetParam().first, body, options);
  }
};
inline const auto kWorldShapes = ::testing::Values(std::pair(2, 0), std::pair(4, 0), std::pair(3, 1), std::pair(4, 2));
inline std::string name_of_shape(const ::testing::TestParamInfo<std::pair<int, int>>& test) {
  return fmt::format("{}ranks{}shared", test.param.first, test.param.second);
}

/// Bytes that tell a rank and a place.
inline std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 17 + (i >> 8)) & 0xFF);
  return bytes;
}

}  // namespace distdl::comm
