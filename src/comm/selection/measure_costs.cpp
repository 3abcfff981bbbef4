// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/selection/measure_costs.hpp>

namespace distdl::comm {
namespace {
constexpr std::uint32_t kTag = 90;
constexpr double kLongEnough = 300e-6;  // seconds of a timed block
constexpr int kTries = 15;              // the best counts: all that disturbs only adds
constexpr std::size_t kSmall = 8, kLarge = 4 << 20;
constexpr std::size_t kCached = 64 << 10;   // fits the caches that each core has for itself
constexpr std::size_t kShared = 4 << 10;    // size that shared_short can reduce with many ranks
constexpr std::size_t kMemory = 32 << 20;   // memory of each rank: beyond all caches
constexpr std::size_t kOfNode = 512 << 20;  // all ranks together take no more

struct Pair {
  Rank a, b;
};

class Bench {
 public:
  explicit Bench(Communicator& communicator)
      : communicator_(communicator),
        memory_(communicator.allocate(
            std::max(4 * kLarge, std::min(kMemory, kOfNode / static_cast<std::size_t>(communicator.size()))))),
        bytes_(static_cast<std::byte*>(memory_.data())) {
    std::memset(bytes_, 0, memory_.bytes());
  }
  std::size_t most() const { return memory_.bytes(); }

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

  /// Seconds of an all-reduce that works straight on the memory of all ranks.
  double adding(std::size_t bytes) {
    return best(
        [&] { communicator_.all_reduce(floats(bytes), {.choice = Choice{algorithm_of("shared_direct")}}).wait(); });
  }
  double gathering(std::size_t bytes) {
    const std::size_t slice = bytes / static_cast<std::size_t>(communicator_.size());
    const ConstVector own(bytes_ + static_cast<std::size_t>(communicator_.rank().value) * slice, slice, DataType::byte);
    const Vector all(bytes_, slice * static_cast<std::size_t>(communicator_.size()), DataType::byte);
    return best(
        [&] { communicator_.all_gather(own, all, {}, {.choice = Choice{algorithm_of("shared_direct")}}).wait(); });
  }
  /// Seconds of one through the shared areas, whose lines go from cache to cache.
  double signalling(std::size_t bytes) {
    return best(
        [&] { communicator_.all_reduce(floats(bytes), {.choice = Choice{algorithm_of("shared_short")}}).wait(); });
  }

 private:
  double slowest(double seconds) {
    communicator_.all_reduce(Vector(&seconds, 1, DataType::float64), {.reduction = Reduction::maximum}).wait();
    return seconds;
  }
  Vector floats(std::size_t bytes) const { return {bytes_, bytes / sizeof(float), DataType::float32}; }
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
    requests.reserve(2 * static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      requests.push_back(
          communicator_.receive({bytes_ + most() / 2 + static_cast<std::size_t>(i) * bytes, bytes}, other(pair), kTag));
    for (int i = 0; i < count; ++i) requests.push_back(communicator_.send({bytes_, bytes}, other(pair), kTag));
    for (auto& request : requests) request.wait();
  }

  Communicator& communicator_;
  tensor::Buffer memory_;
  std::byte* bytes_;
};

/// If ranks share processors, this is the only cost that can be measured.
void measure_crowd(Bench& bench, int ranks, CostTable& costs) {
  costs = CostTable{.processors = costs.processors};
  costs.turn = bench.signalling(4) * costs.processors / ranks;
}

/// The ranks of one node; each node for itself, all at the same time.
void measure_node(Communicator& node, CostTable& costs) {
  Bench bench(node);
  costs.within = bench.link({Rank(0), Rank(1)});
  const double ranks = node.size();
  const double nothing = bench.adding(64);
  costs.signal = std::max(bench.signalling(4) - (2 + ranks) * costs.step, nothing / 10);
  if (ranks > costs.processors) return measure_crowd(bench, node.size(), costs);
  // Without what an operation on nothing takes; the difference of two noisy times must not become nothing.
  const auto rate = [](double bytes, double all, double fixed) { return bytes / std::max(all - fixed, all / 10); };
  costs.reduce = rate(2.0 * kCached, bench.adding(kCached), nothing);
  costs.copy = rate(2.0 * kCached, bench.gathering(kCached), nothing);
  costs.share = rate((ranks - 1) * kShared, bench.signalling(kShared), bench.signalling(4));
  const auto most = static_cast<double>(bench.most());
  costs.memory = std::min(rate(2 * ranks * most, bench.adding(bench.most()), 0), ranks * costs.reduce);
  // The caches end where the speed has come down half the way, in time per byte, to the memory's.
  const double per_byte = (1 / costs.reduce + ranks / costs.memory) / 2;
  std::size_t span = kCached;
  while (2 * span < bench.most() && bench.adding(2 * span) - nothing < per_byte * 4 * static_cast<double>(span))
    span *= 2;
  costs.cache = 2 * static_cast<double>(span);  // touched: read and written
}
}  // namespace

CostTable measure_costs(Communicator& communicator) {
  CostTable costs = communicator.costs();
  std::vector<std::string> hosts;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) hosts.push_back(communicator.host(rank));
  const auto node = communicator.split(communicator.ranks_on_host_of(communicator.rank()).front().value);
  if (node->size() > 1) measure_node(*node, costs);
  const auto far = std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host != hosts.front(); });
  if (far != hosts.end())
    costs.between = Bench(communicator).link({Rank(0), Rank(static_cast<int>(far - hosts.begin()))});
  std::string bytes = costs.encode();  // measurements of ranks differ a little
  communicator.broadcast(Vector(bytes.data(), bytes.size(), DataType::byte), Rank(0)).wait();
  return CostTable::decode(bytes);
}

}  // namespace distdl::comm
