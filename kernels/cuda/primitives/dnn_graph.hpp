// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <cudnn.h>

#include <distdl/base/handles.hpp>

// Graphs of operations that cuDNN computes together, by its "backend" API.
namespace distdl::kernels::cuda {

void close_descriptor(cudnnBackendDescriptor_t descriptor) noexcept;
using DnnDescriptor = UniqueHandle<cudnnBackendDescriptor_t, &close_descriptor>;

/// cuDNN does not support a graph; the text has the reason.
class DnnRefusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The GPU of a plan: that of a handle, or a GPU of which cuDNN has only a description.
struct DnnTarget {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t description = nullptr;
};
/// The description of a GPU from cuDNN's JSON, of which cuDNN 9.8 and later know. The GPU need not exist.
DnnDescriptor describe_gpu(const std::string& json);

struct DnnView {
  using Four = std::array<std::int64_t, 4>;
  Four extents;
  Four strides;  ///< in elements
  /// The view with the last two axes swapped.
  DnnView turned() const {
    return {{extents[0], extents[1], extents[3], extents[2]}, {strides[0], strides[1], strides[3], strides[2]}};
  }
};
/// A row-major view.
DnnView dense_view(const DnnView::Four& extents);
/// A view of extents (N, C, H, W) in memory as (N, H, W, C).
DnnView channels_last_view(const DnnView::Four& extents);

/// A convolution with equal parameters along both axes of an image.
struct DnnConvolution {
  std::int64_t padding, stride, dilation;
};

/// Limits of a plan.
struct DnnLimits {
  std::size_t most_workspace = std::numeric_limits<std::size_t>::max();  ///< bytes
  bool is_deterministic = true;                                          ///< the same bits in every run
};

/// A way in which cuDNN computes a graph on one GPU.
class DnnPlan {
 public:
  /// GPU memory for the tensor that was added by DnnGraph::memory() with this id.
  struct Binding {
    std::int64_t id;
    const void* data;
  };
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  bool uses_tensor_cores() const { return uses_tensor_cores_; }
  void run(cudnnHandle_t dnn, const std::vector<Binding>& memory, void* workspace) const;

 private:
  friend class DnnGraph;
  DnnDescriptor plan_;
  std::size_t workspace_bytes_ = 0;
  bool uses_tensor_cores_ = false;
  std::vector<float> numbers_;  // see DnnGraph::number()
};

/// A graph to which operations are added one by one. A tensor that memory() did not create exists only within a kernel.
/// All arithmetic is in fp32. All functions throw DnnRefusal if cuDNN does not support the call.
class DnnGraph {
 public:
  using Tensor = cudnnBackendDescriptor_t;  ///< the graph owns it

  /// A tensor in GPU memory. `id` is unique, from 1 to 99.
  Tensor memory(std::int64_t id, cudnnDataType_t type, const DnnView& view);
  Tensor within(cudnnDataType_t type, const DnnView& view);
  /// A constant.
  Tensor number(float value);

  void multiply(Tensor a, Tensor b, Tensor c);
  /// A convolution of x, (N, C, H, W), by w, (out, C / groups, H, W), and its two ways backward.
  void convolve(const DnnConvolution& spec, Tensor x, Tensor w, Tensor y);
  void convolve_to_input(const DnnConvolution& spec, Tensor dx, Tensor w, Tensor dy);
  void convolve_to_weights(const DnnConvolution& spec, Tensor x, Tensor dw, Tensor dy);
  /// y = f(x), f(x, b) or, with `choice`, choice ? x : b.
  void apply(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y, Tensor choice = nullptr);
  /// y = (a >= b), as a boolean.
  void compare(Tensor a, Tensor b, Tensor y);
  /// y = the index along an axis of x, as int32.
  void index(std::int64_t axis, Tensor x, Tensor y);
  /// Reduces along the axes in which y has extent 1, or fewer heads than x.
  void reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor y);
  /// Arranges the same elements in another way.
  void view(Tensor x, Tensor y);

  /// The best plan within the limits that rounds nothing within sums. cuDNN does not report for every engine that its
  /// bits vary.
  DnnPlan plan(const DnnTarget& target, const DnnLimits& limits = {});

 private:
  DnnPlan plan(const DnnDescriptor& configuration, const DnnTarget& target) const;
  Tensor tensor(std::int64_t id, cudnnDataType_t type, const DnnView& view, bool is_within, bool is_number);
  struct ConvolutionNames {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, w, y, how, alpha, beta;
  };
  void convolve(const DnnConvolution& spec, const ConvolutionNames& names, Tensor x, Tensor w, Tensor y);
  struct Operands {
    Tensor x, b, y, choice;
  };
  void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, std::optional<std::int64_t> axis,
                 const Operands& operands);
  void add(DnnDescriptor how, DnnDescriptor operation);

  std::vector<DnnDescriptor> tensors_;
  std::vector<DnnDescriptor> hows_;
  std::vector<DnnDescriptor> operations_;
  std::vector<float> numbers_;
};

}  // namespace distdl::kernels::cuda
