// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>

#include <distdl/app/bench/comm_limits.hpp>
#include <distdl/comm/reduce/reduce.hpp>

namespace distdl::app {
namespace {
constexpr double kLongEnough = 500e-6;  // seconds of a block
constexpr int kLeastBlocks = 5;
constexpr std::size_t kNetworkBytes = 8 << 20;
constexpr std::size_t kMostSlices = 16, kLine = 64;
constexpr std::uint32_t kLimitsTag = 78;

double slowest(comm::Communicator& communicator, double seconds) {
  communicator.all_reduce(comm::Vector(&seconds, 1, comm::DataType::float64), {.reduction = comm::Reduction::maximum})
      .wait();
  return seconds;
}

std::vector<std::vector<Rank>> nodes_of(const comm::Communicator& communicator) {
  std::map<std::string, std::vector<Rank>> nodes;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) nodes[communicator.host(rank)].push_back(rank);
  std::vector<std::vector<Rank>> members;
  members.reserve(nodes.size());
  for (auto& [host, ranks] : nodes) members.push_back(std::move(ranks));
  return members;
}

/// As many slices as a node has ranks, of one rank's memory, together `bytes`: what an all-reduce has a rank work on,
/// but for that it may be all its own.
class Slices {
 public:
  Slices(Workspace& workspace, std::size_t bytes, std::size_t ranks)
      : count_(std::clamp<std::size_t>(ranks, 2, kMostSlices)),
        each_(std::max(bytes / count_ / kLine * kLine, sizeof(float))) {
    for (std::size_t i = 0; i < count_; ++i) {
      auto* memory = static_cast<std::byte*>((i % 2 ? workspace.others : workspace.values).data()) + i / 2 * each_;
      targets_.push_back(memory);
      sources_.push_back({memory, i == 0 ? 0 : 1});
    }
  }
  void add() const {
    comm::reduce(comm::DataType::float32, comm::Reduction::sum, sources_, targets_, each_ / sizeof(float));
  }
  void copy() const {
    for (std::size_t i = 0; i + 1 < count_; i += 2) std::memcpy(targets_[i], targets_[i + 1], each_);
  }
  /// Read and written.
  double added() const { return 2 * static_cast<double>(count_ * each_); }
  double copied() const { return 2 * static_cast<double>(pairs() * each_); }

 private:
  std::size_t pairs() const { return count_ / 2; }

  std::size_t count_, each_;
  std::vector<void*> targets_;
  std::vector<comm::ReduceSource> sources_;
};
}  // namespace

Limits::Limits(comm::Communicator& communicator, Workspace& workspace, double seconds)
    : communicator_(communicator), workspace_(workspace), seconds_(seconds), members_(nodes_of(communicator)) {
  if (nodes() == 1) return;
  out_ = tensor::allocate_host(kNetworkBytes);
  in_ = tensor::allocate_host(kNetworkBytes);
}

/// Seconds of one call of `work` while all ranks do the same.
template <class Work>
double Limits::best(const Work& work) {
  double least = 1e9, taken = 0;
  for (int calls = 1, blocks = 0; blocks < kLeastBlocks || taken < seconds_ / 2;) {
    communicator_.barrier().wait();
    const Stopwatch watch;
    for (int i = 0; i < calls; ++i) work();
    const double seconds = slowest(communicator_, watch.seconds());  // so all ranks do equally many blocks
    taken += seconds;
    if (blocks == 0 && seconds < kLongEnough) {
      calls *= 2;
      continue;
    }
    least = std::min(least, seconds / calls);
    ++blocks;
  }
  return least;
}

/// The better of adding slices into each other, as an all-reduce does, and of copying one to another.
double Limits::memory_rate(std::size_t bytes) {
  const std::size_t local = members_.front().size();
  const Slices slices(workspace_, bytes, local);
  const double add = best([&] { slices.add(); });
  const double copy = best([&] { slices.copy(); });
  return static_cast<double>(local) * std::max(slices.added() / add, slices.copied() / copy);
}

/// One connection may carry less than the network, and several may be in each other's way.
double Limits::network_rate() {
  if (nodes() == 1) return 0;
  const std::size_t pairs = std::min(members_[0].size(), members_[1].size());
  const double one = exchange_rate(1);
  return pairs == 1 ? one : std::max(one, exchange_rate(pairs));
}

/// Bytes per second that so many ranks of the first node exchange with as many of the second.
double Limits::exchange_rate(std::size_t pairs) {
  const std::size_t bytes = kNetworkBytes / pairs;
  std::optional<Rank> peer;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (members_[0][i] == communicator_.rank()) peer = members_[1][i];
    if (members_[1][i] == communicator_.rank()) peer = members_[0][i];
  }
  const double seconds = best([&] {
    if (!peer) return;
    auto incoming = communicator_.receive(in_.as<std::byte>().first(bytes), *peer, kLimitsTag);
    communicator_.send(out_.as<std::byte>().first(bytes), *peer, kLimitsTag).wait();
    incoming.wait();
  });
  return static_cast<double>(pairs * bytes) / seconds;
}

double Limits::least_seconds(Operation operation, std::size_t bytes) {
  const auto size = static_cast<double>(bytes);
  const int local = static_cast<int>(members_.front().size());
  if (nodes() > 1) return network_traffic(operation, communicator_.size(), local) * size / network_rate();
  return memory_traffic(operation, communicator_.size()) * size / memory_rate(bytes);
}

}  // namespace distdl::app
