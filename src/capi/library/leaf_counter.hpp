// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <distdl/comm/sum_tree.hpp>
#include <distdl/comm/vector.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::capi {

/// into[i] += from[i], each rounded to the type. Arrays need no alignment.
void add_elements(tensor::DataType type, void* into, const void* from, std::size_t count);

/// Adds the arrays of a rank's leaves along the fixed tree of comm/sum_tree.hpp, as they come, in few arrays: a binary
/// counter, as parallel::GradientSum has for gradients.
class LeafCounter {
 public:
  using Allocate = std::function<tensor::Buffer(std::size_t bytes)>;
  /// Sums arrays of `count` elements of the leaves of `range`, of `leaves` in all.
  LeafCounter(comm::LeafRange range, int leaves, std::size_t count, tensor::DataType type, const Allocate& allocate);

  comm::LeafRange range() const { return range_; }
  std::size_t count() const { return count_; }
  tensor::DataType type() const { return type_; }
  bool is_complete() const { return node_ == cover_.size(); }
  /// The leaves that are added.
  int added() const { return added_; }
  /// Adds the array of the next leaf.
  void add(const void* values);
  /// The value of each node of the cover, once all leaves are added.
  std::vector<comm::ConstVector> partials() const;
  /// Begins again.
  void restart() { depth_ = node_ = 0, leaf_ = added_ = 0; }

 private:
  std::byte* array(std::size_t index) const;
  void merge_top();

  comm::LeafRange range_;
  int leaves_;
  std::size_t count_;
  tensor::DataType type_;
  std::vector<comm::TreeNode> cover_;
  std::size_t stride_;     ///< bytes from one array to the next
  tensor::Buffer arrays_;  ///< a stack: the values of finished nodes, then those of the present one
  std::size_t depth_ = 0;  ///< arrays in use
  std::size_t node_ = 0;   ///< index in cover_
  int leaf_ = 0;           ///< leaves of that node that are done
  int added_ = 0;
};

}  // namespace distdl::capi
