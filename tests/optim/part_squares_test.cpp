// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include <distdl/kernels/options.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/optim/part_squares.hpp>

namespace distdl::optim {
namespace {
/// The norm of the gradients of a model whose parts are in different hands, against that of the whole.
TEST(PartSquares, HaveTheBitsOfTheWholeModel) {
  tensor::ArenaLayout layout;
  std::vector<std::size_t> borders;
  for (const std::int64_t count : {100, 20'000, 7, 60'000, 16'384, 33}) {
    borders.push_back(layout.size());
    layout.add("weight" + std::to_string(count), {count});
    layout.add("mean" + std::to_string(count), {5}, count == 7 ? tensor::Role::statistic : tensor::Role::parameter);
  }
  for (const char* name : {"reference", "onednn"}) {
    const auto backend = kernels::make_backend({.backend = name});
    std::vector<float> gradients(layout.size());
    for (const auto& view : layout.tensors())
      for (std::size_t i = 0; i < view.count; ++i)
        gradients[view.offset + i] = std::sin(static_cast<float>(view.offset + i));
    Optimizer optimizer({.clip_norm = 1}, layout, *backend);
    const double expected = *optimizer.prepare(gradients.data(), {});
    std::vector<double> numbers;
    for (std::size_t part = 0; part < borders.size(); ++part) {
      const std::size_t end = part + 1 < borders.size() ? borders[part + 1] : layout.size();
      PartSquares squares(layout, borders, {{{borders[part], end}, 0}}, *backend);
      std::vector<double> mine(squares.count());
      squares.write(gradients.data() + borders[part], mine);
      if (numbers.empty()) numbers.resize(mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) numbers[i] += mine[i];
    }
    EXPECT_EQ(std::sqrt(PartSquares(layout, borders, {}, *backend).sum(numbers)), expected) << name;
  }
}
}  // namespace
}  // namespace distdl::optim
