// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>
#include <distdl/model/exchange.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::model {

/// The number of last layers of the model that are slices of its classes, see divide(). 0: the head is not divided.
std::size_t head_slices(const Description& model);

/// The cross-entropy of logits in slices of the classes, of which this rank has some. The slices exchange summaries of
/// each row once, not logits, and each rank combines them in the same order: the bits do not depend on the ranks.
class SlicedHead {
 public:
  /// A slice's logits and the memory for their gradient: nullptr, if it is not wanted.
  struct Slice {
    const void* logits;
    void* gradient;
  };
  /// `logits` is the format of the last slice. Throws ConfigError where the backend or the loss cannot be divided.
  SlicedHead(kernels::Backend& backend, const Description& model, const kernels::ActivationFormat& logits);
  /// If other ranks have the other slices.
  void set_gather(Gather gather) { gather_ = std::move(gather); }
  /// The number of slices that are here.
  std::size_t size() const { return losses_.size(); }
  /// As kernels::Loss::forward_backward(). Collective, if other ranks have the other slices.
  void forward_backward(std::span<const Slice> slices, const void* targets, float scale, float* totals);

 private:
  std::vector<kernels::ClassSlice> places_;
  std::vector<std::unique_ptr<kernels::SlicedLoss>> losses_;
  tensor::Buffer summaries_;  ///< summaries of all slices
  Gather gather_;
};

}  // namespace distdl::model
