// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <distdl/kernels/cuda/primitives/dnn_graph.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

struct ConvolutionExtents {
  DnnView::Four input;   ///< (N, C, H, W)
  DnnView::Four filter;  ///< (out, C / groups, kernel, kernel)
  DnnView::Four output;  ///< (N, out, H', W')
  DnnConvolution window;
};

/// A convolution of 16 bits and its two ways backward as cuDNN's graphs. Images and filters have their channels last.
/// Sums are in fp32. The gradient of the filter has 16 bits.
class ConvolutionPlans {
 public:
  /// Throws DnnRefusal if cuDNN has no plan within the limits.
  ConvolutionPlans(const ConvolutionExtents& of, tensor::DataType type, const DnnTarget& target,
                   const DnnLimits& limits);

  std::size_t workspace_bytes() const;
  bool use_tensor_cores() const;
  void forward(cudnnHandle_t dnn, const void* x, const void* w, void* y, void* workspace) const;
  void backward_input(cudnnHandle_t dnn, const void* dy, const void* w, void* dx, void* workspace) const;
  void backward_weights(cudnnHandle_t dnn, const void* x, const void* dy, void* dw, void* workspace) const;

 private:
  DnnPlan forward_, backward_input_, backward_weights_;
};

}  // namespace distdl::kernels::cuda
