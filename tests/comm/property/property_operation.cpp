// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/property/property_operation.hpp"

#include <algorithm>
#include <cstring>

namespace distdl::comm::property {
namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0xA5};

}  // namespace

Memory::Memory(Communicator& comm, std::size_t shared_bytes) : shared_(comm.allocate(shared_bytes)) {}

std::span<std::byte> Memory::take(std::size_t bytes, bool shared, std::size_t alignment) {
  const std::size_t whole = bytes + 2 * kGuard;
  std::span<std::byte> piece;
  if (const std::size_t first = (used_ + alignment - 1) / alignment * alignment;
      shared && first + whole <= shared_.bytes()) {
    piece = shared_.as<std::byte>().subspan(first, whole);
    used_ = first + whole;
  } else {
    piece = plain_.emplace_back(whole);
  }
  std::fill(piece.begin(), piece.end(), kUntouched);
  guards_.push_back(piece.first(kGuard));
  guards_.push_back(piece.last(kGuard));
  return piece.subspan(kGuard, bytes);
}

std::string Memory::judge_guards() const {
  for (std::span<const std::byte> guard : guards_)
    for (std::byte one : guard)
      if (one != kUntouched) return "memory beside input or output was written";
  return "";
}

void Memory::reset() {
  used_ = 0;
  plain_.clear();
  guards_.clear();
}

RankOperation::RankOperation(Communicator& comm, Memory& memory, const Case& one, const Shape& shape,
                             std::shared_ptr<const Truth> truth)
    : comm_(comm), one_(one), shape_(shape), truth_(std::move(truth)), rank_(comm.rank().value) {
  lay_out(memory);
  const auto& values = truth_->inputs(rank_);
  for (std::size_t part = 0; part < inputs_.size(); ++part)
    std::copy(values[part].begin(), values[part].end(), inputs_[part].begin());
}

void RankOperation::lay_out(Memory& memory) {
  const std::size_t element = size_of(one_.type);
  const bool shared = one_.shared[static_cast<std::size_t>(rank_)];
  const auto& values = truth_->inputs(rank_);
  const std::size_t output_bytes = truth_->output_count(rank_) * element;
  for (const auto& part : values) inputs_.push_back(memory.take(part.size(), shared, element));
  if (one_.collective == Collective::broadcast) {  // always in place; only root's values count
    output_ = inputs_[0];
    apart_ = false;
    return;
  }
  const Problem problem = problem_of(one_, shape_, rank_);
  const bool possible =
      problem.send_counts == problem.receive_counts && !inputs_.empty() && output_bytes > 0 && !inputs_[0].empty();
  if (!one_.in_place || !possible) {
    output_ = memory.take(output_bytes, shared, element);
    return;
  }
  apart_ = false;
  const std::size_t slice = one_.counts.empty() ? 0 : one_.first(rank_) * element;
  if (output_bytes > inputs_[0].size()) {  // all_gather, gather
    output_ = memory.take(output_bytes, shared, element);
    inputs_[0] = output_.subspan(slice, inputs_[0].size());
  } else {
    output_ = inputs_[0].subspan(output_bytes < inputs_[0].size() ? slice : 0, output_bytes);
  }
}

Vector RankOperation::output() const {
  return {output_.data(), output_.size() / size_of(one_.type), one_.type};
}

ConstVector RankOperation::input() const {
  return {inputs_[0].data(), inputs_[0].size() / size_of(one_.type), one_.type};
}

Request RankOperation::begin() {
  CallOptions options;
  options.reduction = one_.reduction;
  options.order = one_.order;
  options.choice = one_.choice;
  if (!one_.leaves) return begin_move(options);
  std::vector<ConstVector> partials;
  for (std::span<std::byte> part : inputs_)
    partials.emplace_back(part.data(), part.size() / size_of(one_.type), one_.type);
  if (one_.collective == Collective::all_reduce) return comm_.all_reduce(*one_.leaves, partials, output(), options);
  return comm_.reduce_scatter(*one_.leaves, partials, output(), one_.counts, options);
}

Request RankOperation::begin_move(const CallOptions& options) {
  std::span<const std::size_t> counts = one_.counts;
  const bool tells = one_.tell_counts || !one_.has_equal_counts();
  if (!tells) counts = {};
  const Problem problem = problem_of(one_, shape_, rank_);
  const Rank root(one_.root);
  switch (one_.collective) {
    case Collective::barrier:
      return comm_.barrier(options);
    case Collective::broadcast:
      return comm_.broadcast(output(), root, options);
    case Collective::reduce:
      return comm_.reduce(input(), output(), root, options);
    case Collective::all_reduce:
      return apart_ ? comm_.all_reduce(input(), output(), options) : comm_.all_reduce(output(), options);
    case Collective::reduce_scatter:
      return comm_.reduce_scatter(input(), output(), counts, options);
    case Collective::all_gather:
      return comm_.all_gather(input(), output(), counts, options);
    case Collective::gather:
      return comm_.gather(input(), output(), root, counts, options);
    case Collective::scatter:
      return comm_.scatter(input(), output(), root, counts, options);
    case Collective::all_to_all:
      break;
  }
  if (!tells) return comm_.all_to_all(input(), output(), {}, {}, options);
  return comm_.all_to_all(input(), output(), problem.send_counts, problem.receive_counts, options);
}

std::string RankOperation::judge() const {
  const auto& values = truth_->inputs(rank_);
  // The first of several partial sums may be changed.
  for (std::size_t part = one_.leaves ? 1 : 0; apart_ && part < inputs_.size(); ++part)
    if (!std::equal(values[part].begin(), values[part].end(), inputs_[part].begin())) return "an input was changed";
  return truth_->judge(rank_, output_);
}

}  // namespace distdl::comm::property
