// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/tree_broadcast.hpp>
#include <distdl/comm/algorithms/tree_reduction.hpp>

namespace distdl::comm {
namespace {

std::vector<Stream> double_tree(const ScheduleBuilder& build) {
  std::vector<Stream> streams;
  for (int which : {0, 1}) {
    const TreePlace place = double_tree_place(build.size(), build.problem().root, build.rank(), which);
    streams.push_back({slice_of(build.whole(), 2, which, build.line()), place.parent, place.children});
  }
  return streams;
}

void double_tree_broadcast(ScheduleBuilder& build) {
  broadcast(build, double_tree(build));
}

void double_tree_reduce(ScheduleBuilder& build) {
  const Piece first = slice_of(build.whole(), 2, 0, build.line()), second = slice_of(build.whole(), 2, 1, build.line());
  reduce_along(build, double_tree_tasks(build.problem(), first, second), Order::any);
}

Generator generator(const Problem& problem, const Choice& choice) {
  if (problem.collective == Collective::broadcast) return double_tree_broadcast;
  return problem.collective == Collective::reduce && choice.order == Order::any ? double_tree_reduce : nullptr;
}

/// In each of the two trees a rank passes half of the data on, segment by segment.
double predicted_seconds(const CostModel& model) {
  const double piece = model.segment > 0 ? std::min(model.segment, model.total / 2) : model.total / 2;
  const double pieces = piece > 0 ? model.total / piece : 1;
  double rise = 0, flow = 0;
  for (int k = 0; k < model.at.rounds(); ++k) {
    rise += model.hop(piece, model.at.climbing(k));
    flow = std::max(flow, model.hop(model.total, std::min(1, model.at.climbing(k))) -
                              model.hop(0, std::min(1, model.at.climbing(k))));
  }
  const double busy = pieces * 3 * model.overhead();
  double seconds = model.phases_out() * (rise + flow + busy);
  if (model.phases_in())
    seconds += rise + model.at.rounds() * model.add(piece) + std::max(flow, model.add(model.total)) + busy;
  return seconds;
}

}  // namespace

/// Two trees, each of which carries half. Sanders, Speck, Traeff, Parallel Computing 2009.
extern const Algorithm kDoubleTree{
    .name = "double_tree",
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
