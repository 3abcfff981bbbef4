// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/cuda_handles.hpp>

namespace distdl::kernels::cuda {
namespace {
/// cuDNN counts in int.
std::array<int, 4> extents(const tensor::Shape& shape) {
  require(shape.size() == 4 && tensor::element_count(shape) <= std::numeric_limits<int>::max(),
          "a convolution on the GPU takes (N, C, H, W) of at most 2^31 - 1 elements, not {}; use smaller microbatches",
          tensor::to_string(shape));
  return {static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2]),
          static_cast<int>(shape[3])};
}
}  // namespace

void drain(cudaStream_t stream) noexcept {
  (void)cudaStreamSynchronize(stream);
}
void close_stream(cudaStream_t stream) noexcept {
  (void)cudaStreamDestroy(stream);
}
void close_event(cudaEvent_t event) noexcept {
  (void)cudaEventSynchronize(event);
  (void)cudaEventDestroy(event);
}
void close_graph(cudaGraph_t graph) noexcept {
  (void)cudaGraphDestroy(graph);
}
void close_recording(cudaGraphExec_t recording) noexcept {
  (void)cudaGraphExecDestroy(recording);
}
void close_blas(cublasHandle_t blas) noexcept {
  (void)cublasDestroy(blas);
}
void close_blas_lt(cublasLtHandle_t blas) noexcept {
  (void)cublasLtDestroy(blas);
}
void close_matmul(cublasLtMatmulDesc_t matmul) noexcept {
  (void)cublasLtMatmulDescDestroy(matmul);
}
void close_matmul_preference(cublasLtMatmulPreference_t preference) noexcept {
  (void)cublasLtMatmulPreferenceDestroy(preference);
}
void close_matrix(cublasLtMatrixLayout_t matrix) noexcept {
  (void)cublasLtMatrixLayoutDestroy(matrix);
}
void close_dnn(cudnnHandle_t dnn) noexcept {
  (void)cudnnDestroy(dnn);
}
void close_tensor(cudnnTensorDescriptor_t tensor) noexcept {
  (void)cudnnDestroyTensorDescriptor(tensor);
}
void close_filter(cudnnFilterDescriptor_t filter) noexcept {
  (void)cudnnDestroyFilterDescriptor(filter);
}
void close_convolution(cudnnConvolutionDescriptor_t convolution) noexcept {
  (void)cudnnDestroyConvolutionDescriptor(convolution);
}
void close_activation(cudnnActivationDescriptor_t activation) noexcept {
  (void)cudnnDestroyActivationDescriptor(activation);
}

cudaDataType_t library_type(tensor::DataType type) {
  if (type == tensor::DataType::bfloat16) return CUDA_R_16BF;
  return type == tensor::DataType::float16 ? CUDA_R_16F : CUDA_R_32F;
}
cublasComputeType_t compute_type(tensor::DataType operands, bool allows_tf32) {
  return allows_tf32 && operands == tensor::DataType::float32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "create an event");
  return Event(event);
}

std::optional<Recording> record(cudaStream_t stream, const std::function<void()>& work, std::string& problem) {
  cudaGraph_t captured = nullptr;
  // Other threads may do as they like meanwhile; this one does nothing else.
  cudaError_t code = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (code == cudaSuccess) {
    try {
      work();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    code = cudaStreamEndCapture(stream, &captured);
  }
  const Graph graph(captured);
  cudaGraphExec_t made = nullptr;
  if (problem.empty() && code == cudaSuccess) code = cudaGraphInstantiate(&made, graph.get(), 0);
  if (problem.empty() && code == cudaSuccess) return Recording(made);
  (void)cudaGetLastError();  // or the next launch's check would report it again
  if (problem.empty()) problem = text_of(code);
  return std::nullopt;
}

Blas make_blas(cudaStream_t stream) {
  cublasHandle_t created = nullptr;
  check(cublasCreate(&created), "start cuBLAS");
  Blas blas(created);
  check(cublasSetStream(blas.get(), stream), "set cuBLAS's stream");
  // Whether floats are rounded to TF32 each call says by its compute type.
  check(cublasSetMathMode(blas.get(), static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                                CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
        "set cuBLAS to compute sums in fp32");
  check(cublasSetAtomicsMode(blas.get(), CUBLAS_ATOMICS_NOT_ALLOWED), "set cuBLAS to work without atomics");
  check(cublasSetPointerMode(blas.get(), CUBLAS_POINTER_MODE_HOST), "set cuBLAS's pointer mode");
  return blas;
}

BlasLt make_blas_lt() {
  cublasLtHandle_t created = nullptr;
  check(cublasLtCreate(&created), "start cuBLASLt");
  return BlasLt(created);
}

MatmulDescriptor make_matmul(cublasComputeType_t compute) {
  cublasLtMatmulDesc_t created = nullptr;
  check(cublasLtMatmulDescCreate(&created, compute, CUDA_R_32F), "create the description of a product");
  return MatmulDescriptor(created);
}

MatmulPreference make_matmul_preference() {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "create the preferences for a product");
  return MatmulPreference(created);
}

MatrixLayout make_matrix(tensor::DataType type, std::int64_t rows, std::int64_t columns,
                         std::int64_t leading_dimension) {
  cublasLtMatrixLayout_t created = nullptr;
  check(cublasLtMatrixLayoutCreate(&created, library_type(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), leading_dimension),
        "describe a matrix");
  return MatrixLayout(created);
}

Dnn make_dnn(cudaStream_t stream) {
  cudnnHandle_t created = nullptr;
  check(cudnnCreate(&created), "start cuDNN");
  Dnn dnn(created);
  check(cudnnSetStream(dnn.get(), stream), "set cuDNN's stream");
  return dnn;
}

TensorDescriptor make_tensor(const tensor::Shape& shape) {
  auto [n, c, h, w] = extents(shape);
  cudnnTensorDescriptor_t created = nullptr;
  check(cudnnCreateTensorDescriptor(&created), "create a tensor descriptor");
  TensorDescriptor tensor(created);
  check(cudnnSetTensor4dDescriptor(tensor.get(), CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w),
        "describe a tensor of shape " + tensor::to_string(shape));
  return tensor;
}

FilterDescriptor make_filter(const tensor::Shape& shape) {
  auto [out, c, h, w] = extents(shape);
  cudnnFilterDescriptor_t created = nullptr;
  check(cudnnCreateFilterDescriptor(&created), "create a filter descriptor");
  FilterDescriptor filter(created);
  check(cudnnSetFilter4dDescriptor(filter.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, out, c, h, w),
        "describe a filter of shape " + tensor::to_string(shape));
  return filter;
}

ActivationDescriptor make_activation(cudnnActivationMode_t mode, cudnnNanPropagation_t nan) {
  cudnnActivationDescriptor_t created = nullptr;
  check(cudnnCreateActivationDescriptor(&created), "create an activation descriptor");
  ActivationDescriptor activation(created);
  check(cudnnSetActivationDescriptor(activation.get(), mode, nan, 0), "describe an activation");
  return activation;
}

ConvolutionDescriptor make_convolution(const Conv2d& spec, cudnnMathType_t math) {
  cudnnConvolutionDescriptor_t created = nullptr;
  check(cudnnCreateConvolutionDescriptor(&created), "create a convolution descriptor");
  ConvolutionDescriptor convolution(created);
  const int padding = static_cast<int>(spec.padding), stride = static_cast<int>(spec.stride),
            dilation = static_cast<int>(spec.dilation);
  check(cudnnSetConvolution2dDescriptor(convolution.get(), padding, padding, stride, stride, dilation, dilation,
                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "describe a convolution");
  check(cudnnSetConvolutionGroupCount(convolution.get(), static_cast<int>(spec.groups)),
        "describe the groups of a convolution");
  check(cudnnSetConvolutionMathType(convolution.get(), math), "choose a convolution's arithmetic");
  return convolution;
}

}  // namespace distdl::kernels::cuda
