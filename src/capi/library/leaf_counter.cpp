// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/capi/library/leaf_counter.hpp>
#include <distdl/tensor/element_maths.hpp>

namespace distdl::capi {
namespace {

constexpr std::size_t kAlignment = 64;

struct SumMaths {};
using Maths = tensor::ElementMaths<SumMaths>;

template <class Type>
void add_all(std::byte* into, const std::byte* from, std::size_t count) {
  using Value = typename Type::Value;
  for (std::size_t i = 0; i < count; ++i) {
    Value a, b;
    std::memcpy(&a, into + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    a = Type::add(a, b);
    std::memcpy(into + i * sizeof a, &a, sizeof a);
  }
}

/// The most arrays that are in use at a time.
std::size_t arrays_for(const std::vector<comm::TreeNode>& cover, int leaves) {
  std::size_t arrays = 0;
  for (std::size_t i = 0; i < cover.size(); ++i) {
    const auto width = static_cast<unsigned>(comm::leaves_of(cover[i], leaves).count);
    arrays = std::max(arrays, i + static_cast<std::size_t>(std::bit_width(width)));
  }
  return arrays;
}

}  // namespace

void add_elements(tensor::DataType type, void* into, const void* from, std::size_t count) {
  auto* const to = static_cast<std::byte*>(into);
  const auto* const source = static_cast<const std::byte*>(from);
  switch (type) {
    case tensor::DataType::float32:
      return add_all<Maths::Float>(to, source, count);
    case tensor::DataType::float64:
      return add_all<Maths::Double>(to, source, count);
    case tensor::DataType::float16:
      return add_all<Maths::Float16>(to, source, count);
    case tensor::DataType::bfloat16:
      return add_all<Maths::Bfloat16>(to, source, count);
    case tensor::DataType::int32:
      return add_all<Maths::Integer<std::int32_t, std::uint32_t>>(to, source, count);
    case tensor::DataType::int64:
      return add_all<Maths::Integer<std::int64_t, std::uint64_t>>(to, source, count);
    default:
      break;
  }
  throw ConfigError("bytes have no sum: give the type of the elements");
}

LeafCounter::LeafCounter(comm::LeafRange range, int leaves, std::size_t count, tensor::DataType type,
                         const Allocate& allocate)
    : range_(range),
      leaves_(leaves),
      count_(count),
      type_(type),
      cover_(comm::cover(range, leaves)),
      stride_((count * tensor::size_of(type) + kAlignment - 1) / kAlignment * kAlignment),
      arrays_(allocate(arrays_for(cover_, leaves) * stride_)) {}

std::byte* LeafCounter::array(std::size_t index) const {
  return static_cast<std::byte*>(arrays_.data()) + index * stride_;
}

void LeafCounter::merge_top() {
  --depth_;
  add_elements(type_, array(depth_ - 1), array(depth_), count_);
}

void LeafCounter::add(const void* values) {
  const bool closes = leaf_ + 1 == comm::leaves_of(cover_[node_], leaves_).count;
  // After leaf number k of a node, as many sibling pairs are complete as k has trailing one bits.
  int pairs = std::countr_one(static_cast<unsigned>(leaf_));
  if (pairs > 0) {
    add_elements(type_, array(depth_ - 1), values, count_);
    --pairs;
  } else {
    if (count_ > 0) std::memcpy(array(depth_), values, count_ * tensor::size_of(type_));
    ++depth_;
  }
  for (; pairs > 0; --pairs) merge_top();
  while (closes && depth_ > node_ + 1) merge_top();  // the right edge of the tree: no full sibling
  leaf_ = closes ? 0 : leaf_ + 1;
  if (closes) ++node_;
  ++added_;
}

std::vector<comm::ConstVector> LeafCounter::partials() const {
  std::vector<comm::ConstVector> all;
  for (std::size_t i = 0; i < cover_.size(); ++i) all.emplace_back(array(i), count_, type_);
  return all;
}

}  // namespace distdl::capi
