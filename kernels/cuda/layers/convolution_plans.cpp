// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/cuda/layers/convolution_plans.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr std::int64_t kInput = 1, kFilter = 2, kOutput = 3;  // ids

using Operation = void (DnnGraph::*)(const DnnConvolution&, DnnGraph::Tensor, DnnGraph::Tensor, DnnGraph::Tensor);

DnnPlan plan(Operation operation, const ConvolutionExtents& of, cudnnDataType_t type, const DnnTarget& target,
             const DnnLimits& limits) {
  DnnGraph graph;
  const auto memory = [&](std::int64_t id, const DnnView::Four& extents) {
    return graph.memory(id, type, channels_last_view(extents));
  };
  (graph.*operation)(of.window, memory(kInput, of.input), memory(kFilter, of.filter), memory(kOutput, of.output));
  return graph.plan(target, limits);
}
}  // namespace

ConvolutionPlans::ConvolutionPlans(const ConvolutionExtents& of, tensor::DataType type, const DnnTarget& target,
                                   const DnnLimits& limits) {
  const cudnnDataType_t short_type = type == tensor::DataType::bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  forward_ = plan(&DnnGraph::convolve, of, short_type, target, limits);
  backward_input_ = plan(&DnnGraph::convolve_to_input, of, short_type, target, limits);
  backward_weights_ = plan(&DnnGraph::convolve_to_weights, of, short_type, target, limits);
}

std::size_t ConvolutionPlans::workspace_bytes() const {
  return std::max({forward_.workspace_bytes(), backward_input_.workspace_bytes(), backward_weights_.workspace_bytes()});
}
bool ConvolutionPlans::use_tensor_cores() const {
  return forward_.uses_tensor_cores() && backward_input_.uses_tensor_cores() && backward_weights_.uses_tensor_cores();
}

void ConvolutionPlans::forward(cudnnHandle_t dnn, const void* x, const void* w, void* y, void* workspace) const {
  forward_.run(dnn, {{kInput, x}, {kFilter, w}, {kOutput, y}}, workspace);
}
void ConvolutionPlans::backward_input(cudnnHandle_t dnn, const void* dy, const void* w, void* dx,
                                      void* workspace) const {
  backward_input_.run(dnn, {{kInput, dx}, {kFilter, w}, {kOutput, dy}}, workspace);
}
void ConvolutionPlans::backward_weights(cudnnHandle_t dnn, const void* x, const void* dy, void* dw,
                                        void* workspace) const {
  backward_weights_.run(dnn, {{kInput, x}, {kFilter, dw}, {kOutput, dy}}, workspace);
}

}  // namespace distdl::kernels::cuda
