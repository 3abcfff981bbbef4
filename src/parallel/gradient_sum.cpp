// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {
namespace {
constexpr std::size_t kAlignment = 16;  ///< floats: a cache line
}  // namespace

std::size_t arenas_for(comm::LeafRange range, int microbatches) {
  std::size_t arenas = 1;  // for the result, where a rank has no microbatch
  const auto nodes = comm::cover(range, microbatches);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto leaves = static_cast<unsigned>(comm::leaves_of(nodes[i], microbatches).count);
    arenas = std::max(arenas, i + static_cast<std::size_t>(std::bit_width(leaves)));
  }
  return arenas;
}

GradientSum::GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
                         std::size_t count)
    : backend_(backend),
      communicator_(communicator),
      leaves_{plan.microbatches, plan.ranges},
      count_(count),
      cover_(comm::cover(plan.of(communicator.rank()), plan.microbatches)),
      stride_((count + kAlignment - 1) / kAlignment * kAlignment) {}

void GradientSum::allocate() {
  capacity_ = arenas_for(leaves_.ranges.at(static_cast<std::size_t>(communicator_.rank().value)), leaves_.count);
  communicator_.use(backend_.accelerator());
  arenas_ = memory_for(capacity_);
  locate_partials();
}

void GradientSum::allocate_spare() {
  assert(arenas_.bytes() > 0 && spare_.bytes() == 0);
  spare_ = memory_for(1);
}

tensor::Buffer GradientSum::memory_for(std::size_t arenas) {
  const std::size_t bytes = arenas * stride_ * sizeof(float);
  return backend_.memory_is_host() ? communicator_.allocate(bytes) : backend_.allocate(bytes);
}

void GradientSum::set_plan(const MicrobatchPlan& plan) {
  const comm::LeafRange range = plan.of(communicator_.rank());
  assert(node_ == 0 || node_ == cover_.size());
  assert(plan.microbatches == leaves_.count && arenas_for(range, plan.microbatches) <= capacity());
  leaves_.ranges = plan.ranges;
  cover_ = comm::cover(range, plan.microbatches);
  node_ = cover_.size();
  leaf_ = 0;
  locate_partials();
}

void GradientSum::locate_partials() {
  partials_.clear();
  for (std::size_t i = 0; i < cover_.size(); ++i) partials_.emplace_back(arena(i), count_, comm::DataType::float32);
}

float* GradientSum::arena(std::size_t index) const {
  assert(index < capacity());
  if (index == capacity_) return static_cast<float*>(spare_.data());
  return static_cast<float*>(arenas_.data()) + index * stride_;
}

float* GradientSum::microbatch_arena() {
  if (node_ == cover_.size()) depth_ = node_ = 0;  // the first of a new step
  return arena(depth_);
}

float* GradientSum::first_partial() {
  return arena(0);
}

void GradientSum::reduce_top() {
  --depth_;
  backend_.add(arena(depth_ - 1), arena(depth_), count_);
}

void GradientSum::add() {
  assert(node_ < cover_.size());
  ++depth_;
  // A binary counter: after leaf number k, as many sibling pairs are complete as k has trailing one bits.
  for (int k = leaf_; k & 1; k >>= 1) reduce_top();
  ++leaf_;
  if (leaf_ == comm::leaves_of(cover_[node_], leaves_.count).count) {
    while (depth_ > node_ + 1) reduce_top();  // the right edge of the tree: subtrees without a full sibling
    ++node_;
    leaf_ = 0;
  }
}

float* GradientSum::finish() {
  assert(node_ == cover_.size());
  if (communicator_.size() == 1) return arena(0);
  const comm::Vector result(arena(0), count_, comm::DataType::float32);
  communicator_.all_reduce(leaves_, partials_, result).wait();
  return arena(0);
}

}  // namespace distdl::parallel
