// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/comm/combine.hpp>
#include <distdl/comm/measure_costs.hpp>

namespace distdl::comm {
namespace {
constexpr std::uint32_t kTag = 90;
constexpr double kLongEnough = 300e-6;  // seconds of a timed block
constexpr int kTries = 15;              // the best counts: all that disturbs only adds
constexpr std::size_t kSmall = 8, kLarge = 4 << 20;
constexpr std::size_t kCached = 32 << 10;  // fits a first-level cache with its target
constexpr std::size_t kMemory = 64 << 20;  // of each rank: beyond all caches

struct Pair {
  Rank a, b;
};

class Bench {
 public:
  explicit Bench(Communicator& communicator)
      : communicator_(communicator),
        memory_(communicator.allocate(kMemory)),
        bytes_(static_cast<std::byte*>(memory_.data())) {
    std::memset(bytes_, 0, kMemory);
  }

  /// Seconds per call, the best of several blocks; all ranks call, the slowest counts.
  double best(const std::function<void()>& work) {
    double least = 1e9;
    for (int calls = 1, tries = 0; tries < kTries;) {
      communicator_.barrier().wait();
      const Stopwatch watch;
      for (int i = 0; i < calls; ++i) work();
      const double seconds = slowest(watch.seconds());
      if (seconds < kLongEnough && calls < (1 << 20)) {
        calls *= 2;
        continue;
      }
      least = std::min(least, seconds / calls);
      ++tries;
    }
    return least;
  }

  LinkCost link(Pair pair) {
    LinkCost cost;
    cost.latency = best([&] { there_and_back(pair, kSmall); }) / 2;
    const double large = best([&] { exchange(pair, kLarge, 1); });
    cost.bandwidth = static_cast<double>(kLarge) / std::max(large - cost.latency, large / 10);
    // Many small messages at once cost their overhead each, and the latency once.
    constexpr int kMany = 16;
    const double many = best([&] { exchange(pair, kSmall, kMany); });
    cost.overhead = std::max((many - cost.latency) / kMany, cost.latency / 100);
    return cost;
  }

  /// Bytes read and written per second by this rank, with `span` bytes of its memory, while the others do the same.
  double adding(std::size_t span) {
    const std::size_t floats = span / 2 / sizeof(float);
    const std::array<Source, 2> sources{Source{bytes_, 0}, Source{bytes_ + span / 2, 1}};
    const std::array<void*, 2> targets{bytes_, bytes_ + span / 2};
    return 2 * static_cast<double>(span) /
           best([&] { combine(DataType::float32, Reduction::sum, sources, targets, floats); });
  }
  double copying(std::size_t span) {
    return static_cast<double>(span) / best([&] { std::memcpy(bytes_, bytes_ + span / 2, span / 2); });
  }

 private:
  double slowest(double seconds) {
    communicator_.all_reduce(Vector(&seconds, 1, DataType::float64), {.reduction = Reduction::maximum}).wait();
    return seconds;
  }
  bool in(Pair pair) const { return communicator_.rank() == pair.a || communicator_.rank() == pair.b; }
  Rank other(Pair pair) const { return communicator_.rank() == pair.a ? pair.b : pair.a; }

  void there_and_back(Pair pair, std::size_t bytes) {
    if (!in(pair)) return;
    const bool starts = communicator_.rank() == pair.a;
    if (starts) communicator_.send({bytes_, bytes}, other(pair), kTag).wait();
    communicator_.receive({bytes_, bytes}, other(pair), kTag).wait();
    if (!starts) communicator_.send({bytes_, bytes}, other(pair), kTag).wait();
  }

  /// Both send `count` messages at a time.
  void exchange(Pair pair, std::size_t bytes, int count) {
    if (!in(pair)) return;
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i)
      requests.push_back(communicator_.receive({bytes_ + kMemory / 2 + static_cast<std::size_t>(i) * bytes, bytes},
                                               other(pair), kTag));
    for (int i = 0; i < count; ++i) requests.push_back(communicator_.send({bytes_, bytes}, other(pair), kTag));
    for (auto& request : requests) request.wait();
  }

  Communicator& communicator_;
  tensor::Buffer memory_;
  std::byte* bytes_;
};

std::optional<Pair> pair_within(const Communicator& communicator) {
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value)
    if (const auto near = communicator.ranks_on_host_of(rank); near.size() > 1) return Pair{near[0], near[1]};
  return std::nullopt;
}
std::optional<Pair> pair_between(const Communicator& communicator) {
  for (Rank rank(1); rank.value < communicator.size(); ++rank.value)
    if (communicator.host(rank) != communicator.host(Rank(0))) return Pair{Rank(0), rank};
  return std::nullopt;
}

/// What fits the caches: where the speed comes down half the way from cache to memory.
double cache_bytes(Bench& bench, double in_cache, double in_memory) {
  std::size_t span = 64 << 10;
  while (span < kMemory / 2 && bench.adding(span) > (in_cache + in_memory) / 2) span *= 2;
  return static_cast<double>(span) / 2;
}
}  // namespace

CostTable measure_costs(Communicator& communicator) {
  CostTable costs;
  if (communicator.size() == 1) return costs;
  Bench bench(communicator);
  const auto near = pair_within(communicator), far = pair_between(communicator);
  if (near) costs.within = bench.link(*near);
  if (far) costs.between = bench.link(*far);
  int local = 1;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value)
    local = std::max(local, static_cast<int>(communicator.ranks_on_host_of(rank).size()));
  costs.combine = bench.adding(kCached);
  costs.copy = bench.copying(kCached);
  const double alone = bench.adding(kMemory);
  costs.memory = alone * local;
  costs.cache = cache_bytes(bench, costs.combine, alone);
  if (near && !far) {
    // A barrier in shared memory is one signal, and a look at each neighbour.
    const double barrier = bench.best([&] { communicator.barrier().wait(); });
    costs.signal = std::max(barrier - local * costs.step, barrier / 2);
  }
  // The slowest rank's measure on all ranks was the same number, but for what each reads off its own table.
  auto bytes = costs.encode();
  communicator.broadcast(Vector(bytes.data(), bytes.size(), DataType::byte), Rank(0)).wait();
  return CostTable::decode(bytes);
}

}  // namespace distdl::comm
