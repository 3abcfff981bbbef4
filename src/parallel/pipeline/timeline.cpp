// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <distdl/parallel/pipeline/timeline.hpp>

namespace distdl::parallel::pipeline {
namespace {
/// Performs the operations of all ranks in any order that their messages allow: the times are the same in each.
class Simulation {
 public:
  Simulation(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), costs_(costs), free_(schedule.operations.size()), computed_(schedule.operations.size()) {
    line_.spans.resize(free_.size());
    line_.done.resize(free_.size());
  }

  Timeline run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < free_.size(); ++rank)
        while (line_.done[rank] < schedule_.operations[rank].size() && perform(rank)) moved = true;
    }
    return std::move(line_);
  }

 private:
  struct Channel {
    std::vector<double> arrivals, receipts;
  };

  /// Messages between the ranks, those of the operation's kind.
  Channel& channel(int from, int to, const Operation& operation) {
    return channels_[{from, to, operation.is_forward()}];
  }

  /// The rank's next operation. False: it must wait.
  bool perform(std::size_t rank) {
    const Operation& operation = schedule_.operations[rank][line_.done[rank]];
    const int self = static_cast<int>(rank);
    if (!computed_[rank]) {
      double begin = free_[rank];
      if (operation.receive_from != Operation::kNobody) {
        auto& [arrivals, receipts] = channel(operation.receive_from, self, operation);
        if (receipts.size() == arrivals.size()) return false;
        begin = std::max(begin, arrivals[receipts.size()]);
        receipts.push_back(begin);
      }
      free_[rank] = begin + costs_.stages[static_cast<std::size_t>(operation.stage)].of(operation.kind);
      line_.spans[rank].push_back({begin, free_[rank]});
      computed_[rank] = true;
    }
    if (operation.send_to != Operation::kNobody) {
      auto& [arrivals, receipts] = channel(self, operation.send_to, operation);
      const auto buffers = static_cast<std::size_t>(schedule_.buffers);
      if (arrivals.size() >= buffers) {
        if (receipts.size() + buffers == arrivals.size()) return false;
        free_[rank] = std::max(free_[rank], receipts[arrivals.size() - buffers]);
      }
      arrivals.push_back(free_[rank] + costs_.transfer);
    }
    computed_[rank] = false;
    ++line_.done[rank];
    return true;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  Timeline line_;
  std::vector<double> free_;    ///< when a rank's last operation has ended
  std::vector<bool> computed_;  ///< whether only the result of a rank's next operation must still be sent
  std::map<std::tuple<int, int, bool>, Channel> channels_;
};
}  // namespace

double StageCosts::of(Kind kind) const {
  switch (kind) {
    case Kind::forward:
      return forward;
    case Kind::backward:
      return backward_input + backward_weight;
    case Kind::backward_input:
      return backward_input;
    case Kind::backward_weight:
      return backward_weight;
  }
  return 0;
}

double Timeline::bubble() const {
  return std::accumulate(idle.begin(), idle.end(), 0.0) / (seconds * static_cast<double>(idle.size()));
}

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  Timeline line = Simulation(schedule, costs).run();
  for (const auto& spans : line.spans)
    if (!spans.empty()) line.seconds = std::max(line.seconds, spans.back().end);
  for (const auto& spans : line.spans)
    line.idle.push_back(std::accumulate(spans.begin(), spans.end(), line.seconds,
                                        [](double left, const Span& span) { return left - (span.end - span.begin); }));
  return line;
}

std::vector<int> peak_activations(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const auto& operations : schedule.operations) {
    int held = 0, peak = 0;
    for (const auto& operation : operations) {
      held += operation.is_forward() ? 1 : operation.kind == Kind::backward_input ? 0 : -1;
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<std::size_t> peaks_of_stages(const Schedule& schedule, int rank) {
  const auto stages = static_cast<std::size_t>(schedule.shape.interleave);
  std::vector<std::size_t> held(stages), peaks(stages);
  for (const Operation& operation : schedule.operations[static_cast<std::size_t>(rank)]) {
    const auto stage = static_cast<std::size_t>(operation.stage / schedule.shape.ranks);
    if (operation.is_forward()) peaks[stage] = std::max(peaks[stage], ++held[stage]);
    if (operation.kind == Kind::backward || operation.kind == Kind::backward_weight) --held[stage];
  }
  return peaks;
}

}  // namespace distdl::parallel::pipeline
