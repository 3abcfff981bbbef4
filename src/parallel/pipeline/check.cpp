// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include <distdl/parallel/pipeline/check.hpp>
#include <distdl/parallel/pipeline/timeline.hpp>

namespace distdl::parallel::pipeline {
namespace {
/// One check of one schedule. Its functions return what is wrong, or "".
class Check {
 public:
  explicit Check(const Schedule& schedule) : schedule_(schedule), shape_(schedule.shape) {}

  std::string run() {
    const auto ranks = static_cast<std::size_t>(shape_.ranks);
    if (shape_.ranks < 1 || shape_.microbatches < 1 || shape_.interleave < 1 || schedule_.buffers < 1)
      return "the numbers of ranks, microbatches, stages per rank and buffers must be at least 1";
    if (schedule_.operations.size() != ranks || schedule_.most_activations.size() != ranks)
      return fmt::format("there must be {} lists of operations, and as many numbers of activations", ranks);
    done_.resize(static_cast<std::size_t>(shape_.stages()));
    for (int rank = 0; rank < shape_.ranks; ++rank)
      for (std::size_t i = 0; i < of(rank).size(); ++i)
        if (auto problem = check(rank, of(rank)[i]); !problem.empty()) return at(rank, i, problem);
    for (auto part : {&Check::check_counts, &Check::check_channels, &Check::check_end, &Check::check_activations})
      if (auto problem = (this->*part)(); !problem.empty()) return problem;
    return "";
  }

 private:
  /// Microbatches that a stage has done, by kind. Their number is enough, because they come in ascending order.
  struct Done {
    int of[4] = {};
    int& operator[](Kind kind) { return of[static_cast<std::size_t>(kind)]; }
    /// Number of microbatches whose gradient the stage before may have.
    int backward() { return std::max((*this)[Kind::backward], (*this)[Kind::backward_input]); }
  };
  using Message = std::pair<int, int>;  ///< the stage for which it is, and the microbatch
  struct Channel {
    std::vector<Message> sent, received;
  };

  const std::vector<Operation>& of(int rank) const { return schedule_.operations[static_cast<std::size_t>(rank)]; }
  Done& done(int stage) { return done_[static_cast<std::size_t>(stage)]; }

  std::string at(int rank, std::size_t i, const std::string& problem) const {
    return fmt::format("rank {}, operation {} ({}): {}", rank, i, text_of(of(rank)[i]), problem);
  }

  /// Returns the other rank that has the stage.
  int holder(int stage, int rank) const {
    const bool exists = stage >= 0 && stage < shape_.stages();
    return exists && stage % shape_.ranks != rank ? stage % shape_.ranks : Operation::kNobody;
  }

  std::string check(int rank, const Operation& operation) {
    const auto& [kind, stage, microbatch, receive_from, send_to] = operation;
    if (kind > Kind::backward_weight) return "there is no such kind";
    if (stage < 0 || stage >= shape_.stages() || stage % shape_.ranks != rank)
      return "the rank does not have the stage";
    if (int& count = done(stage)[kind]; microbatch != count++)
      return fmt::format("microbatch {} is expected", count - 1);
    if (!has_input(rank, operation)) return "its input does not exist yet";
    const int direction = kind == Kind::forward ? 1 : -1;
    const bool is_local = kind == Kind::backward_weight;
    const int source = is_local ? Operation::kNobody : holder(stage - direction, rank);
    const int target = is_local ? Operation::kNobody : holder(stage + direction, rank);
    if (receive_from != source) return fmt::format("receives from rank {} instead of {}", receive_from, source);
    if (send_to != target) return fmt::format("sends to rank {} instead of {}", send_to, target);
    if (source != Operation::kNobody)
      channels_[{source, rank, kind == Kind::forward}].received.emplace_back(stage, microbatch);
    if (target != Operation::kNobody)
      channels_[{rank, target, kind == Kind::forward}].sent.emplace_back(stage + direction, microbatch);
    return "";
  }

  /// Whether the operation comes after those of the same rank that it needs.
  bool has_input(int rank, const Operation& operation) {
    const auto& [kind, stage, microbatch, receive_from, send_to] = operation;
    const auto is_here = [&](int other) {
      return other >= 0 && other < shape_.stages() && other % shape_.ranks == rank;
    };
    switch (kind) {
      case Kind::forward:
        return !is_here(stage - 1) || done(stage - 1)[Kind::forward] > microbatch;
      case Kind::backward:
      case Kind::backward_input:
        return done(stage)[Kind::forward] > microbatch &&
               (!is_here(stage + 1) || done(stage + 1).backward() > microbatch);
      case Kind::backward_weight:
        return done(stage)[Kind::backward_input] > microbatch;
    }
    return false;
  }

  std::string check_counts() {
    for (int stage = 0; stage < shape_.stages(); ++stage) {
      Done& counts = done(stage);
      const int whole = counts[Kind::backward], all = shape_.microbatches;
      const int split = whole > 0 ? 0 : all;  // a stage does one or the other
      if (counts[Kind::forward] != all || whole + split != all || counts[Kind::backward_input] != split ||
          counts[Kind::backward_weight] != split)
        return fmt::format("stage {} does not pass each of {} microbatches once forward and once backward", stage, all);
    }
    return "";
  }

  std::string check_channels() {
    for (const auto& [ends, channel] : channels_) {
      const auto& [from, to, is_forward] = ends;
      const auto& [sent, received] = channel;
      if (sent != received)
        return fmt::format("rank {} does not receive the {} of rank {} in the order in which they are sent", to,
                           is_forward ? "activations" : "gradients", from);
    }
    return "";
  }

  std::string check_end() {
    const auto done = simulate(schedule_, {std::vector<StageCosts>(done_.size()), 0}).done;
    for (int rank = 0; rank < shape_.ranks; ++rank)
      if (const auto next = done[static_cast<std::size_t>(rank)]; next < of(rank).size())
        return at(rank, next, "never ends: deadlock");
    return "";
  }

  std::string check_activations() {
    const auto peaks = peak_activations(schedule_);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      if (peaks[rank] > schedule_.most_activations[rank])
        return fmt::format("rank {} holds {} activations at a time, but promises at most {}", rank, peaks[rank],
                           schedule_.most_activations[rank]);
    return "";
  }

  const Schedule& schedule_;
  const Shape& shape_;
  std::vector<Done> done_;  ///< per stage
  std::map<std::tuple<int, int, bool>, Channel> channels_;
};
}  // namespace

std::string check_schedule(const Schedule& schedule) {
  return Check(schedule).run();
}

}  // namespace distdl::parallel::pipeline
