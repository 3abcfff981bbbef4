// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>

#include <distdl/comm/selection/cost_model.hpp>

namespace distdl::comm {
namespace {

/// Most `leaves(rank)` on one node.
template <class Leaves>
int busiest(const std::vector<int>& nodes, int node_count, Leaves&& leaves) {
  std::vector<int> count(static_cast<std::size_t>(node_count));
  for (int r = 0; r < static_cast<int>(nodes.size()); ++r)
    if (leaves(r)) ++count[static_cast<std::size_t>(nodes[static_cast<std::size_t>(r)])];
  return *std::max_element(count.begin(), count.end());
}

constexpr double kAllToAllBytes = 64 * 1024;

/// Of a vector, or of all slices together. Ranks do not know each other's counts of an all-to-all, unless all are
/// equal, and must agree nevertheless: it is taken for one of moderate size.
double total_bytes(const Problem& problem) {
  if (problem.collective == Collective::all_to_all)
    return problem.size * (problem.count ? static_cast<double>(problem.count * problem.element) : kAllToAllBytes);
  const double count = problem.counts.empty() ? static_cast<double>(problem.count)
                                              : std::accumulate(problem.counts.begin(), problem.counts.end(), 0.0);
  return count * static_cast<double>(problem.element);
}

/// Where a node has more ranks than processors: whoever waits gives way, and until those waited for have come, all
/// others have had their turn; whoever works gets his part of the time.
CostTable crowded(CostTable costs, int ranks) {
  const double each = ranks / costs.processors;
  if (each <= 1) return costs;
  for (double* wait : {&costs.signal, &costs.within.latency, &costs.between.latency}) *wait += each * costs.turn;
  for (double* time : {&costs.step, &costs.within.overhead, &costs.between.overhead}) *time *= each;
  for (double* speed : {&costs.reduce, &costs.copy, &costs.share, &costs.within.bandwidth}) *speed /= each;
  return costs;
}

class Model {
 public:
  Model(const Problem& problem, const Choice& choice, const Placement& placement, const CostTable& costs)
      : collective_(problem.collective),
        choice_(choice),
        at_(placement),
        costs_(crowded(costs, placement.widest())),
        ranks_(placement.ranks()),
        bytes_(problem.collective == Collective::barrier ? 0 : total_bytes(problem)),
        slice_(bytes_ / ranks_),
        segment_(static_cast<double>(choice.segment * problem.element)) {}

  double seconds() const {
    if (ranks_ == 1) return costs_.step + work(2 * bytes_, 2 * bytes_, costs_.copy);
    switch (choice_.algorithm) {
      case Algorithm::shared_short:
        return shared_short();
      case Algorithm::shared_direct:
        return shared(at_.widest(), bytes_, false);
      case Algorithm::shared_staged:
        return shared(at_.widest(), bytes_, true);
      case Algorithm::pairwise:
        return pairwise();
      case Algorithm::recursive_doubling:
        return recursive_doubling();
      case Algorithm::recursive_halving:
        return recursive_halving();
      case Algorithm::ring:
        return ring();
      case Algorithm::binomial:
        return binomial();
      case Algorithm::double_tree:
        return double_tree();
      case Algorithm::hierarchical:
        return hierarchical();
      case Algorithm::dissemination:
        return dissemination();
    }
    return std::numeric_limits<double>::infinity();
  }

 private:
  bool reduces() const { return phases_in() > 0; }
  /// How often the operation gathers or sums towards owners, and how often it spreads results.
  int phases_in() const {
    switch (collective_) {
      case Collective::reduce:
      case Collective::all_reduce:
      case Collective::reduce_scatter:
        return 1;
      default:
        return 0;
    }
  }
  int phases_out() const {
    switch (collective_) {
      case Collective::reduce:
      case Collective::reduce_scatter:
        return 0;
      default:
        return 1;
    }
  }

  /// Each rank sends a message and receives one, which is more work than the latency of one holds; `leaving` of them go
  /// out of the busiest node.
  double hop(double bytes, int leaving) const {
    if (leaving == 0) return costs_.within.latency + costs_.within.overhead + near(bytes);
    return costs_.between.latency + costs_.between.overhead + bytes * leaving / costs_.between.bandwidth;
  }
  double overhead() const { return at_.nodes() > 1 ? costs_.between.overhead : costs_.within.overhead; }
  /// Each rank receives `bytes` from its own node: copied twice, beyond the caches at the cost of everyone's memory.
  double near(double bytes) const { return near(bytes, bytes); }
  double near(double bytes, double span) const {
    const double alone = bytes / costs_.within.bandwidth;
    return span <= costs_.cache ? alone : std::max(alone, 4 * bytes * at_.widest() / costs_.memory);
  }
  /// A rank reads and writes `touched` bytes, others of its node likewise, over `span` bytes of memory each.
  double work(double touched, double span, double speed) const {
    if (span <= costs_.cache) return touched / speed;
    return std::max(touched / speed, touched * at_.widest() / costs_.memory);
  }
  double add(double bytes) const { return work(3 * bytes, 2 * bytes, costs_.reduce); }
  /// A transfer whose data are then added: one after the other, or segment by segment.
  double overlapped(double transfer, double adding, double bytes) const {
    if (segment_ <= 0 || segment_ >= bytes) return transfer + adding;
    const double pieces = bytes / segment_;
    return std::max(transfer, adding) + std::min(transfer, adding) / pieces + pieces * (overhead() + 2 * costs_.step);
  }

  /// A rank reads what other ranks of the node have just written.
  double fetch(double bytes) const { return work(bytes, bytes, costs_.share); }

  double shared_short() const {
    const bool from_all = reduces() || collective_ == Collective::all_gather;
    return costs_.signal + (2 + ranks_) * costs_.step + work(2 * bytes_, 2 * bytes_, costs_.copy) +
           fetch(from_all ? (ranks_ - 1) * bytes_ : bytes_);
  }

  /// The ranks of one node, straight on each other's memory, or in pieces through the shared areas.
  double shared(int ranks, double bytes, bool staged) const {
    const double slice = bytes / ranks, rest = bytes - slice;
    double touched = 2 * bytes, fetched = rest;
    if (collective_ == Collective::all_reduce) fetched = 2 * rest;
    if (phases_out() == 0) touched = bytes + slice;
    if (collective_ == Collective::gather || collective_ == Collective::scatter) touched = 2 * (fetched = slice);
    const double speed = reduces() ? costs_.reduce : costs_.copy;
    if (!staged) return 2 * costs_.signal + 2 * ranks * costs_.step + work(touched, touched, speed);
    const double pieces = std::max(1.0, bytes / static_cast<double>(kSharedBytes));
    return pieces * (2 * costs_.signal + 3 * ranks * costs_.step) + work(touched, touched, speed) +
           work(touched, touched, costs_.copy) + fetch(fetched);
  }

  /// Everyone sends `bytes` to everyone.
  double everyone(double bytes) const {
    const double far = ranks_ - at_.widest();
    double seconds = costs_.within.latency + near((at_.widest() - 1) * bytes);
    if (at_.nodes() > 1)
      seconds = std::max(seconds, costs_.between.latency + at_.widest() * far * bytes / costs_.between.bandwidth);
    return seconds + (at_.widest() - 1) * costs_.within.overhead + far * costs_.between.overhead;
  }
  /// Root sends `bytes` to each other rank, or receives them.
  double one_to_all(double bytes) const {
    const double far = ranks_ - at_.widest();
    const double seconds = (at_.nodes() > 1 ? costs_.between.latency : costs_.within.latency) +
                           near((at_.widest() - 1) * bytes) + far * bytes / costs_.between.bandwidth;
    return seconds + (at_.widest() - 1) * costs_.within.overhead + far * costs_.between.overhead;
  }

  double pairwise() const {
    const double adding = work((ranks_ + 1) * slice_, (ranks_ + 1) * slice_, costs_.reduce);
    switch (collective_) {
      case Collective::barrier:
        return everyone(0);
      case Collective::broadcast:
        return one_to_all(bytes_);
      case Collective::gather:
      case Collective::scatter:
        return one_to_all(slice_);
      case Collective::reduce:
        return overlapped(everyone(slice_), adding, slice_) + one_to_all(slice_);
      case Collective::reduce_scatter:
        return overlapped(everyone(slice_), adding, slice_);
      case Collective::all_reduce:
        return overlapped(everyone(slice_), adding, slice_) + everyone(slice_);
      default:
        return everyone(slice_);
    }
  }

  double recursive_doubling() const {
    double seconds = 0;
    const bool power_of_two = (ranks_ & (ranks_ - 1)) == 0;
    for (int k = 0; k < at_.rounds(); ++k) {
      const double bytes = collective_ == Collective::all_gather ? slice_ * (1 << k) : bytes_;
      const double transfer = hop(bytes, at_.exchanging(k));
      seconds += reduces() ? overlapped(transfer, add(bytes), bytes) : transfer;
    }
    return power_of_two ? seconds : seconds + hop(bytes_, at_.exchanging(at_.rounds() - 1));
  }

  double recursive_halving() const {
    double seconds = 0;
    for (int k = 0; k < at_.rounds(); ++k) {
      const double halved = bytes_ / (2 << k), doubled = slice_ * (1 << (at_.rounds() - 1 - k));
      if (phases_in()) seconds += overlapped(hop(halved, at_.exchanging(k)), add(halved), halved);
      if (phases_out()) seconds += hop(doubled, at_.exchanging(k));
    }
    if (collective_ != Collective::reduce_scatter) return seconds;
    return seconds + ranks_ * costs_.step + work(bytes_, bytes_, costs_.copy);  // the slices in another order
  }

  double ring() const {
    const double lap = std::max(hop(slice_, at_.shifting(0)), at_.widest() > 1 ? near(slice_, bytes_) : 0);
    const double around = (ranks_ - 1) * lap;
    const double adding = (ranks_ - 1) * add(slice_);
    double seconds = phases_out() * around;
    if (phases_in()) seconds += overlapped(around, adding, bytes_);
    return seconds;
  }

  double binomial() const {
    double seconds = 0;
    for (int k = 0; k < at_.rounds(); ++k) {
      const bool slices = collective_ == Collective::gather || collective_ == Collective::scatter;
      const double bytes = slices ? slice_ * (1 << k) : bytes_;
      const double transfer = hop(bytes, at_.climbing(k));
      if (collective_ == Collective::barrier) seconds += transfer;
      if (phases_in()) seconds += overlapped(transfer, add(bytes), bytes);
      if (phases_out()) seconds += transfer;
    }
    return seconds;
  }

  /// In each of the two trees a rank passes half of the data on, segment by segment.
  double double_tree() const {
    const double piece = segment_ > 0 ? std::min(segment_, bytes_ / 2) : bytes_ / 2;
    const double pieces = piece > 0 ? bytes_ / piece : 1;
    double rise = 0, flow = 0;
    for (int k = 0; k < at_.rounds(); ++k) {
      rise += hop(piece, at_.climbing(k));
      flow = std::max(flow, hop(bytes_, std::min(1, at_.climbing(k))) - hop(0, std::min(1, at_.climbing(k))));
    }
    const double busy = pieces * 3 * overhead();
    double seconds = phases_out() * (rise + flow + busy);
    if (phases_in()) seconds += rise + at_.rounds() * add(piece) + std::max(flow, add(bytes_)) + busy;
    return seconds;
  }

  double packing(double bytes) const { return work(2 * bytes, 2 * bytes, costs_.copy); }

  /// Within the node to and from slices, one per local rank; these go between the nodes side by side.
  double hierarchical() const {
    const int local = at_.widest(), nodes = at_.nodes();
    const double within = local > 1 ? shared(local, bytes_, choice_.staged) : 0;
    int hops = 0;
    while ((1 << hops) < nodes) ++hops;
    if (collective_ == Collective::barrier) return 2 * costs_.signal + hops * hop(0, 1);
    const double latency = costs_.between.overhead * (nodes - 1) + costs_.between.latency;
    const double share = bytes_ / nodes * (nodes - 1) / costs_.between.bandwidth;  // all slices of the node together
    const double adding = work(3 * bytes_ / local, 2 * bytes_ / local, costs_.reduce);
    switch (collective_) {
      case Collective::all_reduce:
        return within + overlapped(latency + share, adding, bytes_ / local / nodes) + latency + share;
      case Collective::reduce:
      case Collective::reduce_scatter:
        return within + overlapped(latency + share, adding, bytes_ / local / nodes);
      case Collective::broadcast:
        return within + hops * (costs_.between.latency + bytes_ / costs_.between.bandwidth);
      case Collective::all_to_all:
        return within + packing(bytes_) + latency + share * local;
      case Collective::gather:
      case Collective::scatter:
        return overlapped(latency + share, within + packing(bytes_ / nodes), bytes_ / nodes);
      default:
        return overlapped(latency + share, within, slice_);
    }
  }

  double dissemination() const {
    double seconds = 0;
    for (int k = 0; k < at_.rounds(); ++k) seconds += hop(0, at_.shifting(k));
    return seconds;
  }

  Collective collective_;
  const Choice& choice_;
  const Placement& at_;
  const CostTable costs_;
  int ranks_;
  double bytes_, slice_, segment_;
};
}  // namespace

Placement::Placement(const Problem& problem) : ranks_(problem.size) {
  // Nodes may have any numbers.
  std::vector<int> names(problem.nodes), nodes(problem.nodes);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (int& node : nodes) node = static_cast<int>(std::lower_bound(names.begin(), names.end(), node) - names.begin());
  nodes_ = std::max<int>(1, static_cast<int>(names.size()));
  if (nodes.empty()) return;
  widest_ = busiest(nodes, nodes_, [](int) { return true; });
  auto apart = [&](int a, int b) { return nodes[static_cast<std::size_t>(a)] != nodes[static_cast<std::size_t>(b)]; };
  for (int distance = 1; distance < ranks_; distance *= 2) {
    exchanging_.push_back(
        busiest(nodes, nodes_, [&](int r) { return (r ^ distance) < ranks_ && apart(r, r ^ distance); }));
    shifting_.push_back(busiest(nodes, nodes_, [&](int r) { return apart(r, (r + distance) % ranks_); }));
    climbing_.push_back(
        busiest(nodes, nodes_, [&](int r) { return r % (2 * distance) == distance && apart(r, r - distance); }));
  }
}

double predict_seconds(const Problem& problem, const Choice& choice, const Placement& placement,
                       const CostTable& costs) {
  return Model(problem, choice, placement, costs).seconds();
}

}  // namespace distdl::comm
