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

GradientSum::GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
                         std::size_t count)
    : backend_(backend),
      communicator_(communicator),
      leaves_{plan.microbatches, plan.ranges},
      count_(count),
      cover_(comm::cover(plan.of(communicator.rank()), plan.microbatches)),
      stride_((count + kAlignment - 1) / kAlignment * kAlignment) {}

void GradientSum::allocate() {
  std::size_t arenas = 1;  // for the result, where this rank has no microbatch
  for (std::size_t i = 0; i < cover_.size(); ++i) {
    auto leaves = static_cast<unsigned>(comm::leaves_of(cover_[i], leaves_.count).count);
    arenas = std::max(arenas, i + static_cast<std::size_t>(std::bit_width(leaves)));
  }
  communicator_.use(backend_.accelerator());
  const std::size_t bytes = arenas * stride_ * sizeof(float);
  arenas_ = backend_.memory_is_host() ? communicator_.allocate(bytes) : backend_.allocate(bytes);
  partials_.clear();
  for (std::size_t i = 0; i < cover_.size(); ++i) partials_.emplace_back(arena(i), count_, comm::DataType::float32);
}

float* GradientSum::arena(std::size_t index) const {
  assert((index + 1) * stride_ * sizeof(float) <= arenas_.bytes());
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
