// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include <distdl/app/comm_limits.hpp>
#include <distdl/comm/combine.hpp>

namespace distdl::app {
namespace {
constexpr double kLongEnough = 500e-6;  // seconds
constexpr int kTries = 5;
constexpr std::size_t kNetworkBytes = 8 << 20;
constexpr std::uint32_t kTag = 78;

double slowest(comm::Communicator& communicator, double seconds) {
  communicator.all_reduce(comm::Vector(&seconds, 1, comm::DataType::float64), {.reduction = comm::Reduction::maximum})
      .wait();
  return seconds;
}

/// Seconds of one call of `work` while all ranks do the same.
template <class Work>
double together(comm::Communicator& communicator, Work&& work) {
  double best = 1e9;
  for (int calls = 1, tries = 0; tries < kTries;) {
    communicator.barrier().wait();
    const Stopwatch watch;
    for (int i = 0; i < calls; ++i) work();
    const double seconds = slowest(communicator, watch.seconds());
    if (seconds < kLongEnough) {
      calls *= 2;
      continue;
    }
    best = std::min(best, seconds / calls);
    ++tries;
  }
  return best;
}
}  // namespace

Limits::Limits(comm::Communicator& communicator, Workspace& workspace)
    : communicator_(communicator), workspace_(workspace) {
  std::set<std::string> hosts;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) hosts.insert(communicator.host(rank));
  nodes_ = static_cast<int>(hosts.size());
  local_ = static_cast<int>(communicator.ranks_on_host_of(Rank(0)).size());
  if (nodes_ > 1) network_rate_ = measure_network();
}

double Limits::memory_rate(std::size_t bytes) {
  auto [place, fresh] = memory_rates_.try_emplace(bytes, 0);
  if (fresh) place->second = measure_memory(bytes);
  return place->second;
}

/// The better of adding two halves of so much memory into both, and of copying one to the other.
double Limits::measure_memory(std::size_t bytes) {
  const std::size_t floats = std::max<std::size_t>(bytes / 8, 1), half = floats * sizeof(float);
  void* a = workspace_.values.data();
  void* b = workspace_.others.data();
  const std::array<comm::Source, 2> sources{comm::Source{a, 0}, comm::Source{b, 1}};
  const std::array<void*, 2> targets{a, b};
  const double add = together(
      communicator_, [&] { comm::combine(comm::DataType::float32, comm::Reduction::sum, sources, targets, floats); });
  const double copy = together(communicator_, [&] { std::memcpy(a, b, half); });
  return local_ * std::max(4 * static_cast<double>(half) / add, 2 * static_cast<double>(half) / copy);
}

double Limits::measure_network() {
  const Rank here(0);
  Rank there(0);
  while (communicator_.host(there) == communicator_.host(here)) ++there.value;
  const Rank self = communicator_.rank();
  const std::size_t bytes = std::min({workspace_.values.bytes(), workspace_.others.bytes(), kNetworkBytes});
  double best = 1e9;
  for (int i = 0; i < kTries + 1; ++i) {
    communicator_.barrier().wait();
    if (self != here && self != there) continue;
    const Rank peer = self == here ? there : here;
    const Stopwatch watch;
    auto incoming = communicator_.receive({static_cast<std::byte*>(workspace_.others.data()), bytes}, peer, kTag);
    auto outgoing = communicator_.send({static_cast<std::byte*>(workspace_.values.data()), bytes}, peer, kTag);
    outgoing.wait();
    incoming.wait();
    if (i > 0) best = std::min(best, watch.seconds());
  }
  communicator_.broadcast(comm::Vector(&best, 1, comm::DataType::float64), here).wait();
  return static_cast<double>(bytes) / best;
}

double Limits::seconds(Operation operation, std::size_t bytes) {
  const double size = static_cast<double>(bytes);
  if (nodes_ > 1) return network_traffic(operation, communicator_.size(), local_) * size / network_rate_;
  return memory_traffic(operation, communicator_.size()) * size / memory_rate(bytes);
}

}  // namespace distdl::app
