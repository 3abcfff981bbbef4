// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/parallel/shard_sum.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
constexpr std::int64_t kElements = 1003;

/// An activation of each of these shards.
std::vector<tensor::Buffer> activations(kernels::Backend& backend, const kernels::ActivationFormat& format,
                                        comm::LeafRange shards) {
  std::vector<tensor::Buffer> all;
  for (int s = shards.first; s < shards.first + shards.count; ++s) {
    std::vector<float> values(format.elements());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = Philox::uniform(Philox::block(5, static_cast<std::uint64_t>(s), i)[0]) - 0.5f;
    all.push_back(backend.allocate(format.bytes));
    backend.from_dense(format, values.data(), all.back().data());
  }
  return all;
}

std::vector<void*> addresses(const std::vector<tensor::Buffer>& buffers) {
  std::vector<void*> all;
  for (const auto& buffer : buffers) all.push_back(buffer.data());
  return all;
}

TEST(ShardSum, HasTheSameBitsOnEachNumberOfRanks) {
  for (const char* precision : {"fp32", "bf16", "fp16"})
    for (const int shards : {1, 4, 6}) {
      const auto backend = kernels::make_backend({.backend = "reference", .precision = precision});
      const auto format = kernels::dense({kElements}, backend->activation_type());
      const auto all = activations(*backend, format, {0, shards});
      backend->sum(format, addresses(all));
      for (int ranks = 1; ranks <= shards; ++ranks)
        world::run_threads(ranks, [&](world::World& world) {
          auto group = comm::Communicator::connect(world, {});
          auto own = kernels::make_backend({.backend = "reference", .precision = precision});
          ShardSum sum(*own, *group, shards);
          for (int again = 0; again < 2; ++again) {
            const auto range = shards_of_ranks(shards, ranks).ranges[static_cast<std::size_t>(world.rank().value)];
            const auto mine = activations(*own, format, range);
            sum(format, addresses(mine));
            EXPECT_EQ(std::memcmp(mine[0].data(), all[0].data(), format.bytes), 0)
                << shards << " on " << ranks << ", " << precision;
          }
          group->close();
        });
    }
}
}  // namespace
}  // namespace distdl::parallel
