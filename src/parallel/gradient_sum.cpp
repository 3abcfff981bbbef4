// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {
namespace {
void add_floats(std::span<float> accumulate, std::span<const float> addend) {
  float* __restrict a = accumulate.data();
  const float* __restrict b = addend.data();
  for (std::size_t i = 0; i < accumulate.size(); ++i) a[i] += b[i];
}
}  // namespace

GradientSum::GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const Plan& plan,
                         std::size_t count)
    : backend_(backend),
      communicator_(communicator),
      plan_(plan),
      count_(count),
      cover_(comm::cover(plan.of(communicator.rank()), plan.microbatches)) {}

float* GradientSum::arena(std::size_t index) {
  while (arenas_.size() <= index) arenas_.push_back(backend_.allocate(count_ * sizeof(float)));
  return static_cast<float*>(arenas_[index].data());
}

float* GradientSum::slot() {
  if (node_ == cover_.size()) depth_ = node_ = 0;  // the first of a new step
  return arena(depth_);
}

float* GradientSum::first_partial() {
  return arena(0);
}

void GradientSum::merge_top() {
  --depth_;
  backend_.add(arena(depth_ - 1), arena(depth_), count_);
}

void GradientSum::add() {
  assert(node_ < cover_.size());
  ++depth_;
  // A binary counter: after leaf number k, as many sibling pairs are complete as k has trailing one bits.
  for (int k = leaf_; k & 1; k >>= 1) merge_top();
  ++leaf_;
  if (leaf_ == comm::leaves_of(cover_[node_], plan_.microbatches).count) {
    while (depth_ > node_ + 1) merge_top();  // the right edge of the tree: subtrees without a full sibling
    ++node_;
    leaf_ = 0;
  }
}

float* GradientSum::finish() {
  assert(node_ == cover_.size());
  if (communicator_.size() == 1) return arena(0);
  if (!backend_.memory_is_host()) return exchange_through_host(cover_.size());
  std::vector<std::span<float>> partials;
  for (std::size_t i = 0; i < cover_.size(); ++i) partials.emplace_back(arena(i), count_);
  std::span<float> result(arena(0), count_);
  communicator_.tree_all_reduce(plan_.microbatches, plan_.ranges, partials, result, &add_floats);
  return result.data();
}

float* GradientSum::exchange_through_host(std::size_t count) {
  std::size_t bytes = count_ * sizeof(float);
  while (staging_.size() < std::max<std::size_t>(count, 1)) staging_.push_back(backend_.allocate_staging(bytes));
  std::vector<std::span<float>> partials;
  for (std::size_t i = 0; i < count; ++i) {
    backend_.copy_to_host(staging_[i].data(), arena(i), bytes);
    partials.push_back(staging_[i].as<float>());
  }
  auto result = staging_[0].as<float>();
  communicator_.tree_all_reduce(plan_.microbatches, plan_.ranges, partials, result, &add_floats);
  backend_.copy_from_host(arena(0), result.data(), bytes);
  return arena(0);
}

}  // namespace distdl::parallel
