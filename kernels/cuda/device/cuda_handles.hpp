// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <distdl/base/handles.hpp>
#include <distdl/kernels/layer_spec.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::kernels::cuda {

// Closing ignores return codes: they cannot be handled there, and at program end CUDA may already be closed.
void close_stream(cudaStream_t stream) noexcept;
void close_event(
    cudaEvent_t event) noexcept;  ///< waits for the event, because its work may use memory that is freed next
void close_graph(cudaGraph_t graph) noexcept;
void close_recording(cudaGraphExec_t recording) noexcept;
void close_blas(cublasHandle_t blas) noexcept;
void close_blas_lt(cublasLtHandle_t blas) noexcept;
void close_matmul(cublasLtMatmulDesc_t matmul) noexcept;
void close_matmul_preference(cublasLtMatmulPreference_t preference) noexcept;
void close_matrix(cublasLtMatrixLayout_t matrix) noexcept;
void close_dnn(cudnnHandle_t dnn) noexcept;
void close_tensor(cudnnTensorDescriptor_t tensor) noexcept;
void close_filter(cudnnFilterDescriptor_t filter) noexcept;
void close_convolution(cudnnConvolutionDescriptor_t convolution) noexcept;
void close_activation(cudnnActivationDescriptor_t activation) noexcept;

using Stream = UniqueHandle<cudaStream_t, &close_stream>;
using Event = UniqueHandle<cudaEvent_t, &close_event>;
using Graph = UniqueHandle<cudaGraph_t, &close_graph>;
using Recording = UniqueHandle<cudaGraphExec_t, &close_recording>;
using Blas = UniqueHandle<cublasHandle_t, &close_blas>;
using BlasLt = UniqueHandle<cublasLtHandle_t, &close_blas_lt>;
using MatmulDescriptor = UniqueHandle<cublasLtMatmulDesc_t, &close_matmul>;
using MatmulPreference = UniqueHandle<cublasLtMatmulPreference_t, &close_matmul_preference>;
using MatrixLayout = UniqueHandle<cublasLtMatrixLayout_t, &close_matrix>;
using Dnn = UniqueHandle<cudnnHandle_t, &close_dnn>;
using TensorDescriptor = UniqueHandle<cudnnTensorDescriptor_t, &close_tensor>;
using FilterDescriptor = UniqueHandle<cudnnFilterDescriptor_t, &close_filter>;
using ConvolutionDescriptor = UniqueHandle<cudnnConvolutionDescriptor_t, &close_convolution>;
using ActivationDescriptor = UniqueHandle<cudnnActivationDescriptor_t, &close_activation>;
static_assert(!std::is_copy_constructible_v<Stream> && std::is_nothrow_move_constructible_v<Stream>);

/// cuBLAS's type for a floating type.
cudaDataType_t library_type(tensor::DataType type);
/// The type in which cuBLAS computes products of such operands: always fp32, except for the rounding of operands.
cublasComputeType_t compute_type(tensor::DataType operands, bool allows_tf32);

/// Waits until all work is done, and ignores its errors.
void drain(cudaStream_t stream) noexcept;

/// A stream of the calling thread's current GPU. It is independent of the legacy default stream.
Stream make_stream();
/// An event without a time stamp, for ordering only.
Event make_event();
/// Records the work that work() enqueues in the stream, ready to be launched. Returns nullopt if it cannot be recorded:
/// then none of it was done, and `problem` has the reason.
std::optional<Recording> record(cudaStream_t stream, const std::function<void()>& work, std::string& problem);
/// Uses no atomics and computes partial sums in fp32: the bits are the same in every run.
Blas make_blas(cudaStream_t stream);
BlasLt make_blas_lt();
MatmulDescriptor make_matmul(cublasComputeType_t compute);
MatmulPreference make_matmul_preference();
/// A column-major matrix.
MatrixLayout make_matrix(tensor::DataType type, std::int64_t rows, std::int64_t columns,
                         std::int64_t leading_dimension);
Dnn make_dnn(cudaStream_t stream);
/// Floats of shape (N, C, H, W). Throws ConfigError if there are more than cuDNN can count.
TensorDescriptor make_tensor(const tensor::Shape& shape);
/// Floats of shape (out, C / groups, kernel, kernel).
FilterDescriptor make_filter(const tensor::Shape& shape);
ActivationDescriptor make_activation(cudnnActivationMode_t mode, cudnnNanPropagation_t nan);
/// A cross-correlation that accumulates in fp32.
ConvolutionDescriptor make_convolution(const Conv2d& spec, cudnnMathType_t math);

}  // namespace distdl::kernels::cuda
