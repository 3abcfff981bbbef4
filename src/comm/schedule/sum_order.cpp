// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/comm/schedule/sum_order.hpp>

namespace distdl::comm {
namespace {

int end_of(LeafRange range) {
  return range.first + range.count;
}

/// Walks down the tree to where values lie and notes what is reduced on the way up.
class Folding {
 public:
  Folding(std::span<const LeafRange> values, int all)
      : values_(values), all_(all), whole_{values.front().first, end_of(values.back()) - values.front().first} {}

  /// True if there is a value below `node`.
  bool fold(TreeNode node) {
    const LeafRange covered = leaves_of(node, all_);
    if (covered.first >= end_of(whole_) || end_of(covered) <= whole_.first || covered.count == 0) return false;
    if (next_ < values_.size() && values_[next_] == covered) {
      ++next_;
      reductions_.push_back(0);
      return true;
    }
    require<InternalError>(node.level > 0, "there is no value for leaf {} of {}", node.index, all_);
    const bool left = fold({node.level - 1, 2 * node.index});
    const bool right = fold({node.level - 1, 2 * node.index + 1});
    if (left && right) ++reductions_.back();
    return left || right;
  }

  std::vector<std::uint16_t> take() { return std::move(reductions_); }

 private:
  std::span<const LeafRange> values_;
  int all_;
  LeafRange whole_;
  std::size_t next_ = 0;
  std::vector<std::uint16_t> reductions_;
};

/// Cuts the terms into the widest nodes that lie within one group.
class Grouping {
 public:
  Grouping(std::span<const Term> terms, std::span<const int> group_of, int leaves)
      : terms_(terms), group_of_(group_of), leaves_(leaves) {}

  /// terms[first, end) lie below `node`.
  void cut(TreeNode node, std::size_t first, std::size_t end) {
    if (first == end) return;
    const int group = group_of_[terms_[first].rank];
    const auto below = terms_.subspan(first, end - first);
    const bool alone =
        std::all_of(below.begin(), below.end(), [&](const Term& term) { return group_of_[term.rank] == group; });
    if (alone) {
      sums_.push_back({group, leaves_of(node, leaves_), {below.begin(), below.end()}});
      return;
    }
    const TreeNode right{node.level - 1, 2 * node.index + 1};
    const int middle = leaves_of(right, leaves_).first;
    const auto cut_at =
        std::partition_point(below.begin(), below.end(), [&](const Term& term) { return term.leaves.first < middle; });
    const std::size_t at = first + static_cast<std::size_t>(cut_at - below.begin());
    cut({node.level - 1, 2 * node.index}, first, at);
    cut(right, at, end);
  }

  std::vector<GroupSum> take() { return std::move(sums_); }

 private:
  std::span<const Term> terms_;
  std::span<const int> group_of_;
  int leaves_;
  std::vector<GroupSum> sums_;
};

}  // namespace

int leaves_of(const Problem& problem) {
  return problem.ranges.empty() ? problem.size : problem.leaves;
}

std::vector<Term> terms_of(const Problem& problem) {
  std::vector<Term> terms;
  for (int r = 0; r < problem.size; ++r) {
    if (problem.ranges.empty()) {
      terms.push_back({{r, 1}, r, 0});
      continue;
    }
    std::uint16_t part = 0;
    for (TreeNode node : cover(problem.ranges[r], problem.leaves))
      terms.push_back({leaves_of(node, problem.leaves), r, part++});
  }
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.leaves.first < b.leaves.first; });
  int next = 0;
  for (const Term& term : terms) {
    require(term.leaves.first == next, "the ranks' ranges must cover each of {} leaves once, but leaf {} {}",
            leaves_of(problem), std::min(next, term.leaves.first),
            term.leaves.first > next ? "is missing" : "occurs twice");
    next = end_of(term.leaves);
  }
  require(next == leaves_of(problem) && next > 0, "the ranks' ranges end at leaf {} of {}", next, leaves_of(problem));
  return terms;
}

std::vector<int> parts_of(const Problem& problem) {
  std::vector<int> parts(problem.size, problem.ranges.empty() ? 1 : 0);
  for (std::size_t r = 0; r < problem.ranges.size(); ++r)
    parts[r] = static_cast<int>(cover_size(problem.ranges[r], problem.leaves));
  return parts;
}

std::vector<int> one_term_each(const Problem& problem) {
  const std::vector<Term> terms = terms_of(problem);
  std::vector<int> members;
  members.reserve(terms.size());
  for (const Term& term : terms) members.push_back(term.rank);
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  const bool once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  return once && static_cast<int>(members.size()) == problem.size ? members : std::vector<int>{};
}

std::vector<GroupSum> group_sums(const Problem& problem, std::span<const int> group_of, Order order) {
  const std::vector<Term> terms = terms_of(problem);
  const int leaves = leaves_of(problem);
  if (order == Order::deterministic) {
    Grouping grouping(terms, group_of, leaves);
    grouping.cut({root_level(leaves), 0}, 0, terms.size());
    return grouping.take();
  }
  std::vector<GroupSum> sums;
  for (const Term& term : terms) {
    const int group = group_of[term.rank];
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const GroupSum& s) { return s.group == group; });
    if (sum == sums.end()) sum = sums.insert(sum, {group, term.leaves, {}});
    sum->terms.push_back(term);
  }
  return sums;
}

std::vector<std::uint16_t> reductions_of(std::span<const LeafRange> leaves, int all, Order order) {
  if (order == Order::any || leaves.empty()) {
    std::vector<std::uint16_t> reductions(leaves.size(), 1);
    if (!reductions.empty()) reductions.front() = 0;
    return reductions;
  }
  Folding folding(leaves, all);
  folding.fold({root_level(all), 0});
  return folding.take();
}

}  // namespace distdl::comm
