// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/parallel/pipeline/schedule.hpp>

namespace distdl::parallel::pipeline {
namespace {
/// Writes the operations of one rank. All algorithms are one list of forwards and one of backwards; they differ in how
/// many forwards come before the first backward, and in where the gradients of the weights are computed.
class RankWriter {
 public:
  RankWriter(Algorithm algorithm, const Shape& shape, int rank)
      : algorithm_(algorithm), shape_(shape), rank_(rank), count_(groups() * shape.stages()) {}

  std::vector<Operation> write() {
    const bool splits = algorithm_ == Algorithm::zero_bubble;
    for (int k = 0; k < std::min(warm_up(), count_); ++k) add(Kind::forward, k);
    for (int k = 0; k < count_; ++k) {
      if (warm_up() + k < count_) add(Kind::forward, warm_up() + k);
      add(splits ? Kind::backward_input : Kind::backward, k);
      if (splits && k >= delay()) add(Kind::backward_weight, k - delay());
    }
    if (splits)
      for (int k = std::max(0, count_ - delay()); k < count_; ++k) add(Kind::backward_weight, k);
    return std::move(operations_);
  }

  int most_activations() const {
    return std::min(shape_.microbatches * shape_.interleave,
                    warm_up() + 1 + (algorithm_ == Algorithm::zero_bubble ? delay() : 0));
  }

 private:
  /// Microbatches pass in groups of as many as there are ranks, each group through all stages of a rank. The last group
  /// may lack some: what is planned for them is left out. The rest stays free of deadlocks.
  int groups() const { return (shape_.microbatches + shape_.ranks - 1) / shape_.ranks; }

  /// Forwards before the first pair of a forward and a backward.
  int warm_up() const {
    const int behind = shape_.ranks - 1 - rank_;
    if (algorithm_ == Algorithm::gpipe) return count_;
    if (algorithm_ == Algorithm::interleaved) return (shape_.interleave - 1) * shape_.ranks + 2 * behind;
    return behind;
  }
  /// Microbatches by which the gradients of the weights are behind those of the inputs.
  int delay() const { return rank_; }

  void add(Kind kind, int k) {
    const int group = k / shape_.stages(), place = k % shape_.stages();
    const int turn = place / shape_.ranks;
    const int microbatch = group * shape_.ranks + place % shape_.ranks;
    if (microbatch >= shape_.microbatches) return;
    const bool is_forward = kind == Kind::forward;
    const int stage = (is_forward ? turn : shape_.interleave - 1 - turn) * shape_.ranks + rank_;
    Operation operation{kind, stage, microbatch};
    if (kind != Kind::backward_weight) {
      operation.receive_from = holder(stage + (is_forward ? -1 : 1));
      operation.send_to = holder(stage + (is_forward ? 1 : -1));
    }
    operations_.push_back(operation);
  }

  /// The other rank that has the stage, if there is one.
  int holder(int stage) const {
    const bool elsewhere = stage >= 0 && stage < shape_.stages() && shape_.ranks > 1;
    return elsewhere ? stage % shape_.ranks : Operation::kNobody;
  }

  Algorithm algorithm_;
  const Shape& shape_;
  int rank_, count_;
  std::vector<Operation> operations_;
};
}  // namespace

std::string text_of(const Operation& operation) {
  static constexpr const char* kNames[] = {"forward", "backward", "backward of the input", "backward of the weights"};
  const auto kind = static_cast<std::size_t>(operation.kind);
  return fmt::format("{} of microbatch {} in stage {}", kind < std::size(kNames) ? kNames[kind] : "unknown work",
                     operation.microbatch, operation.stage);
}

Schedule make_schedule(OneOf<Algorithm> algorithm, const Shape& shape) {
  require(shape.ranks >= 1 && shape.microbatches >= 1 && shape.interleave >= 1,
          "a pipeline of {} ranks with {} stages each for {} microbatches: each number must be at least 1", shape.ranks,
          shape.interleave, shape.microbatches);
  require(shape.interleave == 1 || algorithm == Algorithm::interleaved,
          "the schedule \"{}\" has one stage per rank, not {}; take \"interleaved\", or one stage", algorithm,
          shape.interleave);
  Schedule schedule{algorithm, shape, {}, {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    RankWriter writer(algorithm, shape, rank);
    schedule.most_activations.push_back(writer.most_activations());
    schedule.operations.push_back(writer.write());
  }
  return schedule;
}

}  // namespace distdl::parallel::pipeline
