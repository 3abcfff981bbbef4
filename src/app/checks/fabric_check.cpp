// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include <distdl/app/checks/fabric_check.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::app {
namespace {
constexpr std::uint32_t kFabricTag = 91;
constexpr std::size_t kSmall = 64 << 10, kLarge = 4 << 20;
constexpr double kEnoughSeconds = 0.2;   // of one kind of message on one link
constexpr std::size_t kMostOfNode = 16;  // ranks of a node whose pairs are all tested
constexpr std::size_t kEnough = 3;       // links that are worth comparing

using Round = std::vector<std::pair<Rank, Rank>>;

/// All pairs of `ranks` in rounds of disjoint ones: the schedule of a round-robin tournament.
std::vector<Round> tournament(std::vector<Rank> ranks) {
  if (ranks.size() % 2) ranks.emplace_back(-1);  // a rank without partner rests
  std::vector<Round> rounds;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    Round round;
    for (std::size_t k = 0; k < ranks.size() / 2; ++k) {
      const auto [low, high] = std::minmax(ranks[k], ranks[ranks.size() - 1 - k]);
      if (low.value >= 0) round.emplace_back(low, high);
    }
    rounds.push_back(std::move(round));
    std::rotate(ranks.begin() + 1, ranks.end() - 1, ranks.end());
  }
  return rounds;
}

/// Within the nodes, all nodes at once, then between them.
std::vector<Round> rounds_of(const comm::Communicator& communicator) {
  std::map<std::string, std::vector<Rank>> nodes;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) nodes[communicator.host(rank)].push_back(rank);
  std::vector<Round> within, between;
  std::vector<Rank> first;
  for (auto& [host, ranks] : nodes) {
    first.push_back(ranks.front());
    ranks.resize(std::min(ranks.size(), kMostOfNode));
    const auto rounds = tournament(ranks);
    // Pairs of one node share its memory: one after the other.
    std::size_t number = 0;
    for (const auto& round : rounds)
      for (const auto& pair : round) {
        if (within.size() == number) within.emplace_back();
        within[number++].push_back(pair);
      }
  }
  std::sort(first.begin(), first.end());
  if (first.size() > 1) between = tournament(first);
  within.insert(within.end(), between.begin(), between.end());
  return within;
}

class PairTest {
 public:
  explicit PairTest(comm::Communicator& communicator)
      : communicator_(communicator), out_(tensor::allocate_host(kLarge)), in_(tensor::allocate_host(kLarge)) {}

  void measure(FabricLink& link) {
    const Rank self = communicator_.rank();
    const Rank peer = self == link.a ? link.b : link.a;
    const auto rate = [&](int times, std::size_t bytes) {
      return static_cast<double>(bytes) / best(link, times, [&] { exchange(peer, bytes); });
    };
    link.latency = best(link, 200, [&] { there_and_back(peer, self == link.a); }) / 2;
    link.small_rate = rate(20, kSmall);
    const double seconds = static_cast<double>(kSmall) / link.small_rate;  // a link with long ones is measured by them
    link.large_rate = agree(link, seconds < kEnoughSeconds / 2) ? rate(4, large_size(link, peer)) : link.small_rate;
  }

 private:
  /// The least of some times, and of fewer if they take long; without the first one, which prepares.
  template <class Work>
  double best(const FabricLink& link, int times, Work&& work) {
    double least = 1e9;
    const Stopwatch all;
    for (int i = 0; i <= times; ++i) {
      const Stopwatch watch;
      work();
      if (i > 0) least = std::min(least, watch.seconds());
      if (i % 2 == 1 && !agree(link, all.seconds() < kEnoughSeconds)) break;
    }
    return least;
  }
  /// Doubles the size until an exchange takes long twice, for one may be held up by chance. Some slow links let the
  /// first bytes pass fast: it is not foretold.
  std::size_t large_size(const FabricLink& link, Rank peer) {
    int slow = 0;
    for (std::size_t bytes = kSmall; bytes < kLarge;) {
      const Stopwatch watch;
      exchange(peer, bytes);
      const bool is_fast = agree(link, watch.seconds() < kEnoughSeconds / 2);
      if (!is_fast && ++slow == 2) return bytes;
      if (is_fast) bytes *= 2, slow = 0;
    }
    return kLarge;
  }
  /// Returns the decision of the link's first rank, on both ranks.
  bool agree(const FabricLink& link, bool goes_on) {
    if (communicator_.rank() != link.a) {
      communicator_.receive(in(1), link.a, kFabricTag).wait();
      return in(1).front() != std::byte{0};
    }
    out(1).front() = std::byte{goes_on};
    communicator_.send(out(1), link.b, kFabricTag).wait();
    return goes_on;
  }
  void there_and_back(Rank peer, bool starts) {
    if (starts) communicator_.send(out(8), peer, kFabricTag).wait();
    communicator_.receive(in(8), peer, kFabricTag).wait();
    if (!starts) communicator_.send(out(8), peer, kFabricTag).wait();
  }
  void exchange(Rank peer, std::size_t bytes) {
    auto incoming = communicator_.receive(in(bytes), peer, kFabricTag);
    communicator_.send(out(bytes), peer, kFabricTag).wait();
    incoming.wait();
  }
  std::span<std::byte> out(std::size_t bytes) { return out_.as<std::byte>().first(bytes); }
  std::span<std::byte> in(std::size_t bytes) { return in_.as<std::byte>().first(bytes); }

  comm::Communicator& communicator_;
  tensor::Buffer out_, in_;
};

/// Value that the best quarter reaches. It is not the median: one slow host among three makes two of three links slow.
template <class Better>
double good(std::vector<double> values, Better better) {
  std::sort(values.begin(), values.end(), better);
  return values[values.size() / 4];
}

/// Describes how links[i] is worse than the others of its class; empty: it is not.
std::string complaint(const FabricReport& report, std::size_t i) {
  const auto& link = report.links[i];
  std::vector<double> latencies, small, large;
  for (const auto& other : report.links) {
    if (other.within != link.within) continue;
    latencies.push_back(other.latency);
    small.push_back(other.small_rate);
    large.push_back(other.large_rate);
  }
  if (latencies.size() < kEnough) return "";
  const double rate = good(large, std::greater()), small_rate = good(small, std::greater());
  const double latency = good(latencies, std::less());
  if (link.large_rate < rate / 2)
    return fmt::format("{:.3f} GB/s, but good links have {:.3f}", link.large_rate / 1e9, rate / 1e9);
  if (link.small_rate < small_rate / 2)
    return fmt::format("{:.3f} GB/s in messages of 64 KiB, but good links have {:.3f}", link.small_rate / 1e9,
                       small_rate / 1e9);
  if (link.latency > 2 * latency)
    return fmt::format("{:.1f} us, but good links have {:.1f}", link.latency * 1e6, latency * 1e6);
  return "";
}
/// A ring as pairs: of even ranks with the next one, of odd ranks with the next one, and the end with the beginning.
std::vector<Round> ring(int size) {
  std::vector<Round> rounds(2);
  for (int r = 0; r + 1 < size; ++r) rounds[static_cast<std::size_t>(r % 2)].emplace_back(Rank(r), Rank(r + 1));
  if (size > 2) rounds.push_back({{Rank(0), Rank(size - 1)}});
  return rounds;
}

FabricReport measure(comm::Communicator& communicator, const std::vector<Round>& rounds) {
  FabricReport report;
  for (Rank rank(0); rank.value < communicator.size(); ++rank.value) report.hosts.push_back(communicator.host(rank));
  PairTest test(communicator);
  std::vector<double> numbers;
  for (const auto& round : rounds) {
    communicator.barrier().wait();
    for (const auto& [a, b] : round) {
      FabricLink link{.a = a, .b = b, .within = communicator.host(a) == communicator.host(b)};
      const Rank self = communicator.rank();
      if (self == a || self == b) test.measure(link);
      const bool tells = self == a;
      for (double number : {link.latency, link.small_rate, link.large_rate}) numbers.push_back(tells ? number : 0);
      report.links.push_back(link);
    }
  }
  communicator.all_reduce(comm::Vector(numbers)).wait();
  for (std::size_t i = 0; i < report.links.size(); ++i) {
    report.links[i].latency = numbers[3 * i];
    report.links[i].small_rate = numbers[3 * i + 1];
    report.links[i].large_rate = numbers[3 * i + 2];
  }
  return report;
}
}  // namespace

FabricReport measure_fabric(comm::Communicator& communicator) {
  return measure(communicator, rounds_of(communicator));
}

FabricReport measure_ring(comm::Communicator& communicator) {
  return measure(communicator, ring(communicator.size()));
}

void check_fabric(FabricReport& report) {
  std::map<std::string, std::pair<int, int>> between;  // host: slow and all links to other hosts
  std::set<std::string> within;
  for (std::size_t i = 0; i < report.links.size(); ++i) {
    const auto& link = report.links[i];
    const auto why = complaint(report, i);
    if (!why.empty()) report.slow.push_back({i, why});
    const auto& a = report.hosts[static_cast<std::size_t>(link.a.value)];
    const auto& b = report.hosts[static_cast<std::size_t>(link.b.value)];
    if (link.within && !why.empty()) within.insert(a);
    if (link.within) continue;
    for (const auto& host : {a, b}) {
      between[host].first += why.empty() ? 0 : 1;
      between[host].second += 1;
    }
  }
  bool explained = true;
  for (const auto& [host, count] : between) {
    if (count.first == 0) continue;
    explained = false;
    if (2 * count.first <= count.second) continue;
    report.advice.push_back(
        fmt::format("{} of {} links of host {} are slow: check its cable, port speed and errors (ethtool, ibstat) "
                    "and what else "
                    "runs there; leave it out until it is repaired (srun --exclude={})",
                    count.first, count.second, host, host));
  }
  if (!explained && report.advice.empty())
    report.advice.emplace_back(
        "the slow links have no host in common: check the switches between these hosts; nodes of one switch "
        "(sbatch --switches=1) avoid them");
  for (const auto& host : within)
    report.advice.push_back(fmt::format(
        "within host {}: its ranks may share a core or run on different sockets; bind each to its own core (srun "
        "--cpu-bind=cores) and check what else runs there",
        host));
}

std::string to_text(const FabricReport& report) {
  const auto named = [&](Rank rank) {
    return fmt::format("{} ({})", rank, report.hosts[static_cast<std::size_t>(rank.value)]);
  };
  auto text =
      fmt::format("{:<28}{:<28}{:<9}{:>10}{:>15}{:>15}\n", "rank", "rank", "where", "latency", "64 KiB", "4 MiB");
  for (std::size_t i = 0; i < report.links.size(); ++i) {
    const auto& link = report.links[i];
    const bool slow = std::any_of(report.slow.begin(), report.slow.end(), [&](const auto& s) { return s.link == i; });
    text += fmt::format("{:<28}{:<28}{:<9}{:>7.2f} us{:>10.3f} GB/s{:>10.3f} GB/s{}\n", named(link.a), named(link.b),
                        link.within ? "node" : "network", link.latency * 1e6, link.small_rate / 1e9,
                        link.large_rate / 1e9, slow ? "  SLOW" : "");
  }
  for (const auto& slow : report.slow)
    text += fmt::format("slow: rank {} - rank {}: {}\n", named(report.links[slow.link].a),
                        named(report.links[slow.link].b), slow.why);
  for (const auto& advice : report.advice) text += "-> " + advice + "\n";
  if (report.slow.empty()) text += fmt::format("none of {} links is slow\n", report.links.size());
  return text;
}

nlohmann::ordered_json to_json(const FabricReport& report) {
  nlohmann::ordered_json document{{"what", "distdl doctor --fabric"}, {"hosts", report.hosts}};
  document["links"] = nlohmann::ordered_json::array();
  for (const auto& link : report.links)
    document["links"].push_back({{"ranks", {link.a.value, link.b.value}},
                                 {"class", link.within ? "node" : "network"},
                                 {"latency_s", link.latency},
                                 {"bytes_per_s_64k", link.small_rate},
                                 {"bytes_per_s_4m", link.large_rate},
                                 {"slow", ""}});
  for (const auto& slow : report.slow) document["links"][slow.link]["slow"] = slow.why;
  document["advice"] = report.advice;
  return document;
}

}  // namespace distdl::app
