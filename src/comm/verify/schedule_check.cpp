// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/comm/schedule/sum_order.hpp>
#include <distdl/comm/verify/schedule_check.hpp>
#include <distdl/comm/verify/symbolic_run.hpp>

namespace distdl::comm {
namespace {

using Id = Formulas::Id;

/// Values that a rank's output must have. A formula kNothing stands for the sum of all.
class Promise {
 public:
  Promise(std::span<const Problem> problems, Formulas& formulas) : problems_(problems), formulas_(formulas) {}

  std::vector<Run> of(int rank) const {
    const Problem& problem = problems_[rank];
    const auto size = static_cast<std::ptrdiff_t>(output_size(problem));
    switch (problem.collective) {
      case Collective::barrier:
        return {};
      case Collective::broadcast:
        return {{0, size, formulas_.operand(problem.root, 0), 0}};
      case Collective::reduce:
      case Collective::all_reduce:
        return {{0, size, Formulas::kNothing, 0}};
      case Collective::reduce_scatter:
        return {{0, size, Formulas::kNothing, offset(problem.counts, rank)}};
      case Collective::scatter:
        return {{0, size, formulas_.operand(problem.root, 0), offset(problem.counts, rank)}};
      case Collective::all_gather:
      case Collective::gather:
        return size ? gathered(problem.counts, [](int) { return std::ptrdiff_t{0}; }) : std::vector<Run>{};
      case Collective::all_to_all:
        return gathered(problem.receive_counts, [&](int from) { return offset(problems_[from].send_counts, rank); });
    }
    return {};
  }

 private:
  static std::ptrdiff_t offset(const std::vector<std::size_t>& counts, int rank) {
    std::size_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += counts[r];
    return static_cast<std::ptrdiff_t>(sum);
  }

  /// counts[r] elements of each rank r, from first(r) on.
  template <class First>
  std::vector<Run> gathered(const std::vector<std::size_t>& counts, First first) const {
    std::vector<Run> runs;
    std::ptrdiff_t begin = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      const auto count = static_cast<std::ptrdiff_t>(counts[r]);
      const int from = static_cast<int>(r);
      runs.push_back({begin, begin + count, formulas_.operand(from, 0), first(from) - begin});
      begin += count;
    }
    return runs;
  }

  std::span<const Problem> problems_;
  Formulas& formulas_;
};

/// The sum along the tree as sum_tree.hpp defines it, independent of what the generators use.
class TreeSum {
 public:
  TreeSum(const Problem& problem, Formulas& formulas) : leaves_(leaves_of(problem)), formulas_(formulas) {
    for (const Term& term : terms_of(problem)) {
      terms_.push_back(term);
      operands_.push_back(formulas.operand(term.rank, term.part));
    }
  }
  Id finished() { return formulas_.finished(sum({root_level(leaves_), 0})); }
  const std::vector<Id>& operands() const { return operands_; }

 private:
  Id sum(TreeNode node) {
    const LeafRange covered = leaves_of(node, leaves_);
    for (std::size_t i = 0; i < terms_.size(); ++i)
      if (terms_[i].leaves == covered) return operands_[i];
    const TreeNode right{node.level - 1, 2 * node.index + 1};
    const Id left = sum({node.level - 1, 2 * node.index});
    return leaves_of(right, leaves_).count ? formulas_.sum(left, sum(right)) : left;
  }

  int leaves_;
  Formulas& formulas_;
  std::vector<Term> terms_;
  std::vector<Id> operands_;
};

/// Compares what the ranks' outputs hold after the run with what the collective promises.
class ResultCheck {
 public:
  ResultCheck(std::span<const Problem> problems, SymbolicRun& run, Order order)
      : problems_(problems), run_(run), order_(order), promise_(problems, run.formulas()) {
    const Collective collective = problems[0].collective;
    if (collective == Collective::reduce || collective == Collective::all_reduce ||
        collective == Collective::reduce_scatter) {
      TreeSum tree(problems[0], run.formulas());
      sum_ = tree.finished();
      operands_ = tree.operands();
    }
  }

  /// Empty if the output of the rank is right.
  std::string problem_of(int rank) {
    if (problems_[rank].collective == Collective::barrier)
      return run_.has_heard_of_all(rank)
                 ? ""
                 : fmt::format("rank {} leaves the barrier before all ranks have entered it", rank);
    const std::vector<Run> found = run_.output(rank);
    std::size_t next = 0;
    std::ptrdiff_t checked = 0;
    for (const Run& wanted : promise_.of(rank))
      while (checked < wanted.end) {
        if (!fits(found[next], wanted)) return complaint(rank, found[next], wanted);
        checked = std::min(found[next].end, wanted.end);
        if (found[next].end == checked) ++next;
      }
    return "";
  }

 private:
  bool fits(const Run& found, const Run& wanted) {
    if (found.shift != wanted.shift) return false;
    if (wanted.formula != Formulas::kNothing) return found.formula == wanted.formula;
    return found.formula == sum_ || (order_ == Order::any && run_.formulas().is_sum_of_each(found.formula, operands_));
  }

  std::string complaint(int rank, const Run& found, const Run& wanted) {
    const Id formula = wanted.formula == Formulas::kNothing ? sum_ : wanted.formula;
    return fmt::format("rank {}: output [{}, {}) contains {} of element {}, but {} of element {} was expected", rank,
                       found.begin, found.end, run_.formulas().text(found.formula), found.begin + found.shift,
                       run_.formulas().text(formula), found.begin + wanted.shift);
  }

  std::span<const Problem> problems_;
  SymbolicRun& run_;
  Order order_;
  Promise promise_;
  Id sum_ = Formulas::kNothing;
  std::vector<Id> operands_;
};

}  // namespace

std::string check_schedules(std::span<const Problem> problems, std::span<const Schedule> schedules, Order order,
                            bool in_place) {
  if (problems.empty() || problems.size() != schedules.size() ||
      problems.size() != static_cast<std::size_t>(problems[0].size))
    return fmt::format("{} problems and {} schedules", problems.size(), schedules.size());
  SymbolicRun run(problems, schedules, in_place);
  if (std::string problem = run.run(); !problem.empty()) return problem;
  ResultCheck check(problems, run, order);
  for (std::size_t r = 0; r < problems.size(); ++r)
    if (std::string problem = check.problem_of(static_cast<int>(r)); !problem.empty()) return problem;
  return "";
}

}  // namespace distdl::comm
