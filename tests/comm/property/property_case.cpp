// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/property/property_case.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm::property {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) {
  return random() % bound;
}
bool chance(Random& random, double probability) {
  return static_cast<double>(random() >> 11) * 0x1p-53 < probability;
}

/// Bytes where something may change: a cache line, UCX's eager and rendezvous protocols, pages, the areas in shared
/// memory and their pieces.
constexpr std::array<std::size_t, 24> kBorders{1,         8,         16,        48,         64,        128,
                                               256,       512,       1024,      2048,       4096,      8192,
                                               16 << 10,  32 << 10,  64 << 10,  128 << 10,  256 << 10, (256 << 10) + 64,
                                               384 << 10, 512 << 10, 768 << 10, 1024 << 10, 2 << 20,   4 << 20};

/// Elements: few, odd, or around a border.
std::size_t draw_count(Random& random, std::size_t element, std::size_t most_bytes) {
  const std::size_t most = std::max<std::size_t>(most_bytes / element, 1);
  if (chance(random, 0.08)) return 0;
  if (chance(random, 0.2)) return 1 + below(random, 20);
  if (chance(random, 0.2)) return 1 + below(random, std::min<std::size_t>(most, 30000));
  const std::size_t border = kBorders[below(random, kBorders.size())] / element;
  return std::min(most, border + below(random, 5) - std::min<std::size_t>(border, 2));
}

/// Elements per rank, different ones or equal ones.
std::vector<std::size_t> draw_counts(Random& random, int ranks, std::size_t element, std::size_t most_bytes) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t each = draw_count(random, element, most_bytes / n);
  std::vector<std::size_t> counts(n, each);
  if (chance(random, 0.3)) return counts;
  for (auto& count : counts) count = chance(random, 0.15) ? 0 : draw_count(random, element, most_bytes / n);
  if (chance(random, 0.1)) {  // all with one rank
    counts.assign(n, 0);
    counts[below(random, n)] = draw_count(random, element, most_bytes);
  }
  return counts;
}

Leaves draw_leaves(Random& random, int ranks) {
  Leaves leaves;
  leaves.count = 1 + static_cast<int>(below(random, 17));
  std::vector<int> cuts{0, leaves.count};
  for (int i = 1; i < ranks; ++i) cuts.push_back(static_cast<int>(below(random, leaves.count + 1)));
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) leaves.ranges.push_back({cuts[i], cuts[i + 1] - cuts[i]});
  std::shuffle(leaves.ranges.begin(), leaves.ranges.end(), random);
  return leaves;
}

void draw_sizes(Random& random, Case& one, const Shape& shape, std::size_t most_bytes) {
  const std::size_t element = size_of(one.type);
  switch (one.collective) {
    case Collective::barrier:
      return;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      one.count = draw_count(random, element, most_bytes / 2);
      return;
    case Collective::all_to_all:
      if (chance(random, 0.5)) {
        const std::size_t n = shape.ranks;
        one.matrix.assign(n, std::vector<std::size_t>(n, draw_count(random, element, most_bytes / 2 / n / n)));
        return;
      }
      for (int r = 0; r < shape.ranks; ++r)
        one.matrix.push_back(draw_counts(random, shape.ranks, element, most_bytes / 2 / shape.ranks));
      return;
    default:
      one.counts = draw_counts(random, shape.ranks, element, most_bytes / 2);
  }
}

}  // namespace

std::vector<int> Shape::nodes() const {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r / per_node * per_node);
  return all;
}

bool Case::reduces() const {
  return collective == Collective::reduce || collective == Collective::all_reduce ||
         collective == Collective::reduce_scatter;
}

bool Case::fixed_order() const {
  return (choice ? choice->order : order) == Order::deterministic;
}

bool Case::has_equal_counts() const {
  const auto all = [](const auto& list, auto&& fits) { return std::all_of(list.begin(), list.end(), fits); };
  return all(counts, [&](std::size_t one) { return one == counts[0]; }) &&
         all(matrix, [&](const auto& row) { return all(row, [&](std::size_t one) { return one == matrix[0][0]; }); });
}

int Case::terms(const Shape& shape) const {
  return leaves ? leaves->count : shape.ranks;
}

std::size_t Case::first(int rank) const {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

std::size_t Case::most_bytes() const {
  std::size_t elements = 2 * (count + std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  if (leaves) elements = elements / 2 * 7;  // of 17 leaves, cover() makes 6 parts at most
  for (const auto& row : matrix) elements += 2 * std::accumulate(row.begin(), row.end(), std::size_t{0});
  return elements * size_of(type);
}

Case draw(std::uint64_t seed, const Shape& shape, std::size_t most_bytes) {
  Random random(seed);
  Case one;
  one.seed = seed;
  one.collective = static_cast<Collective>(below(random, 9));
  if (chance(random, 0.25)) one.collective = Collective::all_reduce;
  one.type = static_cast<DataType>(one.reduces() ? 1 + below(random, 6) : below(random, 7));
  one.reduction = static_cast<Reduction>(below(random, one.type >= DataType::int32 ? 3 : 4));
  one.order = chance(random, 0.25) ? Order::any : Order::deterministic;
  one.root = static_cast<int>(below(random, shape.ranks));
  draw_sizes(random, one, shape, most_bytes);
  const bool has_leaves = one.collective == Collective::all_reduce || one.collective == Collective::reduce_scatter;
  if (has_leaves && chance(random, 0.3)) {
    one.leaves = draw_leaves(random, shape.ranks);
    one.count /= 3;
    for (std::size_t& count : one.counts) count /= 3;
  }
  one.in_place = chance(random, 0.5);
  one.tell_counts = chance(random, 0.5);
  const double share = std::array{0.0, 1.0, 0.7}[below(random, 3)];
  for (int r = 0; r < shape.ranks; ++r) one.shared.push_back(chance(random, share));
  if (const auto possible = choices(one, shape); !possible.empty() && chance(random, 0.7))
    one.choice = possible[below(random, possible.size())];
  return one;
}

namespace {
/// A seed draws from this order, which therefore stays when the table's changes; new ones come last.
std::vector<const Algorithm*> algorithms_to_draw() {
  constexpr std::string_view kFirst[] = {"shared_short",       "shared_direct",     "shared_staged", "pairwise",
                                         "recursive_doubling", "recursive_halving", "ring",          "binomial",
                                         "double_tree",        "hierarchical",      "dissemination"};
  std::vector<const Algorithm*> all(algorithms().begin(), algorithms().end());
  const auto place = [&](const Algorithm* one) { return std::find(std::begin(kFirst), std::end(kFirst), one->name); };
  std::stable_sort(all.begin(), all.end(), [&](const auto* a, const auto* b) { return place(a) < place(b); });
  return all;
}
}  // namespace

std::vector<Choice> choices(const Case& one, const Shape& shape) {
  std::vector<Choice> possible;
  const std::size_t longest =
      std::max(one.count, std::accumulate(one.counts.begin(), one.counts.end(), std::size_t{0}));
  for (const Algorithm* algorithm : algorithms_to_draw())
    for (std::size_t segment : {std::size_t{0}, longest / 2 + 1, longest / 3 + 1, longest / 40 + 5})
      for (Order order : {Order::deterministic, Order::any})
        for (bool staged : {false, true}) {
          const Choice choice{algorithm, segment, staged, order};
          if (is_possible(problem_of(one, shape, 0), choice)) possible.push_back(choice);
        }
  return possible;
}

Problem problem_of(const Case& one, const Shape& shape, int rank) {
  Problem problem;
  problem.collective = one.collective;
  problem.rank = rank;
  problem.size = shape.ranks;
  problem.root = one.root;
  problem.nodes = shape.nodes();
  problem.count = one.count;
  problem.counts = one.counts;
  problem.element = size_of(one.type);
  if (one.leaves) {
    problem.leaves = one.leaves->count;
    problem.ranges = one.leaves->ranges;
  }
  if (one.collective == Collective::all_to_all) {
    if (one.has_equal_counts() && !one.tell_counts) problem.count = one.matrix[0][0];
    problem.send_counts = one.matrix[static_cast<std::size_t>(rank)];
    for (const auto& row : one.matrix) problem.receive_counts.push_back(row[static_cast<std::size_t>(rank)]);
  }
  return problem;
}

std::string describe(const Case& one) {
  constexpr std::array kCollectives{"barrier",    "broadcast",  "reduce", "all-reduce", "reduce-scatter",
                                    "all-gather", "all-to-all", "gather", "scatter"};
  std::string text =
      fmt::format("{} of {} {} (counts {}, matrix {}), {}, root {}, order {}, {}, memory from allocate() by rank: {}",
                  kCollectives[static_cast<std::size_t>(one.collective)], one.count, name_of(one.type), one.counts,
                  one.matrix, name_of(one.reduction), one.root, one.order == Order::deterministic ? "fixed" : "free",
                  one.in_place ? "in place" : "out of place", fmt::join(one.shared, ","));
  if (one.leaves) {
    text += fmt::format(", {} leaves:", one.leaves->count);
    for (LeafRange range : one.leaves->ranges) text += fmt::format(" {}+{}", range.first, range.count);
  }
  if (one.choice)
    text +=
        fmt::format(", choice: algorithm {}, segment {}, {}{}", one.choice->algorithm->name, one.choice->segment,
                    one.choice->staged ? "staged, " : "", one.choice->order == Order::deterministic ? "fixed" : "free");
  return text;
}

}  // namespace distdl::comm::property
