// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "tests/pace.hpp"
#include <distdl/kernels/options.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/piece_sums.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
/// Cuts of an arena at random, of which each rank has some in an arena of its own.
std::vector<std::vector<OwnedElements>> divide(std::size_t size, int ranks, std::mt19937& random) {
  std::vector<std::size_t> borders{0, size};
  for (int i = 0; i < 40; ++i) borders.push_back(random() % size);
  std::ranges::sort(borders);
  std::vector<std::vector<OwnedElements>> all(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> used(all.size(), 0);
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    const std::size_t rank = random() % all.size();
    const optim::Elements elements{borders[i], borders[i + 1]};
    all[rank].push_back({elements, used[rank]});
    used[rank] += elements.count() + random() % 2;
  }
  return all;
}

/// The norm of the gradients of a model whose elements are in different hands, against that of the whole.
TEST(PieceSums, HaveTheBitsOfTheWholeModel) {
  tensor::ArenaLayout layout;
  for (const std::int64_t count : {100, 20'000, 7, 60'000, 16'384, 33}) {
    layout.add("weight" + std::to_string(count), {count});
    layout.add("mean" + std::to_string(count), {5}, count == 7 ? tensor::Role::statistic : tensor::Role::parameter);
  }
  std::vector<float> gradients(layout.size());
  for (const auto& view : layout.tensors())
    for (std::size_t i = 0; i < view.count; ++i)
      gradients[view.offset + i] = std::sin(static_cast<float>(view.offset + i));
  std::mt19937 random(5);
  for (const char* name : {"reference", "onednn"})
    for (const int ranks : {1, 2, 3, 5}) {
      const auto backend = kernels::make_backend({.backend = name});
      optim::Optimizer optimizer({.clip_norm = 1}, layout, *backend);
      const double expected = *optimizer.prepare(gradients.data(), {});
      const auto held = divide(layout.size(), ranks, random);
      world::run_threads(ranks, [&](world::World& world) {
        comm::Options options;
        options.timeout_seconds = paced(20);
        auto communicator = comm::Communicator::connect(world, options);
        const auto& mine = held[static_cast<std::size_t>(world.rank().value)];
        std::vector<float> own(mine.empty() ? 0 : mine.back().at + mine.back().elements.count());
        for (const auto& [elements, at] : mine)
          std::copy_n(gradients.begin() + static_cast<std::ptrdiff_t>(elements.first), elements.count(),
                      own.begin() + static_cast<std::ptrdiff_t>(at));
        const auto own_backend = kernels::make_backend({.backend = name});
        PieceSums pieces(optim::ranges_of_norm(layout), mine, *communicator);
        Squares squares(*own_backend, own.data());
        std::vector<double> numbers(pieces.count());
        for (int repeated = 0; repeated < 2; ++repeated) {
          pieces.write(squares, numbers);
          communicator->all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64)).wait();
          double sum = 0;
          for (const double each : pieces.sums(numbers)) sum += each;
          EXPECT_EQ(std::sqrt(sum), expected) << name << ", " << ranks;
        }
        communicator->close();
      });
    }
}
}  // namespace
}  // namespace distdl::parallel
