// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>

#include <distdl/comm/algorithms/tree_broadcast.hpp>
#include <distdl/comm/algorithms/tree_reduction.hpp>

namespace distdl::comm {
namespace {

using Tasks = std::vector<ReductionTask>;
using Source = ReductionTask::Source;

/// A sum that a rank can make, but has not yet begun.
struct Open {
  int rank = 0;
  LeafRange leaves;
  std::vector<Source> sources;
};

/// Walks the tree of the sum from the leaves up.
class TaskTree {
 public:
  TaskTree(const Problem& problem, Piece whole)
      : root_(problem.root), leaves_(leaves_of(problem)), whole_(whole), terms_(terms_of(problem)) {}

  Tasks plan() {
    const Open all = *open({root_level(leaves_), 0});
    if (all.rank == root_) {
      close(all, -1);
    } else {
      const int last = close(all, root_);
      tasks_.push_back({root_, -1, whole_, {{all.leaves, 0, last}}});
    }
    return std::move(tasks_);
  }

 private:
  std::optional<Open> open(TreeNode node) {
    const LeafRange covered = leaves_of(node, leaves_);
    if (covered.count == 0) return {};
    if (terms_[next_].leaves == covered) {
      const Term& term = terms_[next_++];
      return Open{term.rank, covered, {{covered, term.part, -1}}};
    }
    auto left = open({node.level - 1, 2 * node.index}), right = open({node.level - 1, 2 * node.index + 1});
    if (!right) return left;
    Open& keeper = right->rank == root_ ? *right : *left;
    Open& giver = right->rank == root_ ? *left : *right;
    if (giver.rank != keeper.rank) giver.sources = {{giver.leaves, 0, close(giver, keeper.rank)}};
    Open sum{keeper.rank, covered, left->sources};
    sum.sources.insert(sum.sources.end(), right->sources.begin(), right->sources.end());
    return sum;
  }

  int close(const Open& sum, int receiver) {
    tasks_.push_back({sum.rank, receiver, whole_, sum.sources});
    return static_cast<int>(tasks_.size()) - 1;
  }

  int root_, leaves_;
  Piece whole_;
  std::vector<Term> terms_;
  std::size_t next_ = 0;
  Tasks tasks_;
};

/// One rank's part of all tasks, segment by segment.
class TaskRunner {
 public:
  TaskRunner(ScheduleBuilder& build, Tasks tasks, Order order)
      : build_(build), tasks_(std::move(tasks)), order_(order) {
    std::size_t longest = 1;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      longest = std::max(longest, tasks_[i].piece.count);
      if (tasks_[i].receiver == build.rank()) arrivals_.push_back(static_cast<int>(i));
      if (tasks_[i].rank == build.rank()) own_.push_back(static_cast<int>(i));
    }
    length_ = build.segment(longest);
    segments_ = build.whole().count ? segments_in(longest, length_) : 0;
    room_ = build.line() * segments_in(length_, build.line());
    const std::size_t slots = std::min(kSlots, segments_);
    arrived_ = build.reserve_scratch(slots * arrivals_.size() * room_);
    summed_ = build.reserve_scratch(slots * own_.size() * room_);
    for (auto& groups : arriving_)
      for (std::size_t i = 0; i < own_.size(); ++i) groups.push_back(build.new_group());
    for (int& group : leaving_) group = build.new_group();
  }

  void run() {
    std::size_t posted = 0;
    for (std::size_t t = 0; t < segments_; ++t) {
      for (; posted < std::min(segments_, t + kAhead); ++posted) post(posted);
      for (std::size_t i = 0; i < own_.size(); ++i) perform(i, t);
    }
    for (int group : leaving_) build_.wait(group);
  }

 private:
  static constexpr std::size_t kAhead = 2;  ///< segments that may arrive while one is added or sent
  static constexpr std::size_t kSlots = 2 * kAhead;

  Piece piece(int task, std::size_t t) const { return segment_of(tasks_[task].piece, t, length_); }

  Block arrival(int task, std::size_t t) const {
    const std::size_t place = std::find(arrivals_.begin(), arrivals_.end(), task) - arrivals_.begin();
    return build_.scratch({arrived_ + (t % kSlots * arrivals_.size() + place) * room_, piece(task, t).count});
  }

  /// The own task that a sum is for, as its place in own_.
  std::size_t user_of(int task) const {
    for (std::size_t i = 0; i < own_.size(); ++i)
      for (const Source& source : tasks_[own_[i]].sources)
        if (source.child == task) return i;
    return 0;
  }

  void post(std::size_t t) {
    build_.wait(leaving_[t % kSlots]);  // waits for the data that arrived or were added in this slot
    for (int task : arrivals_)
      build_.receive(tasks_[task].rank, arrival(task, t), arriving_[t % kSlots][user_of(task)]);
  }

  void perform(std::size_t i, std::size_t t) {
    const ReductionTask& task = tasks_[own_[i]];
    const Piece piece = segment_of(task.piece, t, length_);
    build_.wait(arriving_[t % kSlots][i]);
    std::vector<Block> blocks;
    std::vector<LeafRange> leaves;
    for (const Source& source : task.sources) {
      blocks.push_back(source.child < 0 ? build_.input(piece, source.part) : arrival(source.child, t));
      leaves.push_back(source.leaves);
    }
    const bool last = task.receiver < 0;
    Block result = blocks.front();
    if (last || blocks.size() > 1) {
      result =
          last ? build_.output(piece) : build_.scratch({summed_ + (t % kSlots * own_.size() + i) * room_, piece.count});
      const auto reductions = reductions_of(leaves, leaves_of(build_.problem()), order_);
      build_.reduce(operands(blocks, reductions), {&result, 1}, last);
    }
    if (!last) build_.send(task.receiver, result, leaving_[t % kSlots]);
  }

  ScheduleBuilder& build_;
  Tasks tasks_;
  Order order_;
  std::vector<int> arrivals_, own_;  ///< tasks whose sum comes here; tasks of this rank
  std::size_t length_ = 1, segments_ = 0, room_ = 0, arrived_ = 0, summed_ = 0;
  std::array<std::vector<int>, kSlots> arriving_;  ///< groups of each own task
  std::array<int, kSlots> leaving_{};
};

}  // namespace

Tasks binomial_tasks(const Problem& problem, Piece whole) {
  return TaskTree(problem, whole).plan();
}

Tasks double_tree_tasks(const Problem& problem, Piece first, Piece second) {
  const std::vector<int> parts = parts_of(problem);
  Tasks tasks;
  for (int which : {0, 1}) {
    // Children before parents: depth first from the root.
    const auto visit = [&](const auto& self, int rank) -> int {
      const TreePlace place = double_tree_place(problem.size, problem.root, rank, which);
      ReductionTask task{rank, place.parent, which ? second : first, {}};
      for (int part = 0; part < parts[rank]; ++part) task.sources.push_back({{}, part, -1});
      for (int child : place.children)
        if (const int number = self(self, child); number >= 0) task.sources.push_back({{}, 0, number});
      if (task.sources.empty()) return -1;
      tasks.push_back(std::move(task));
      return static_cast<int>(tasks.size()) - 1;
    };
    visit(visit, problem.root);
  }
  return tasks;
}

void reduce_along(ScheduleBuilder& build, const std::vector<ReductionTask>& tasks, Order order) {
  TaskRunner(build, tasks, order).run();
}

}  // namespace distdl::comm
