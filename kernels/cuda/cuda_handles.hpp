// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <distdl/base/handles.hpp>
#include <distdl/kernels/layer_spec.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::kernels::cuda {

// Closing ignores the return code: there is nobody left to tell, and at program end CUDA may be gone already.
void close_stream(cudaStream_t stream) noexcept;
void close_event(cudaEvent_t event) noexcept;  ///< waits for it: what it stands for may use memory that goes next
void close_blas(cublasHandle_t blas) noexcept;
void close_blas_lt(cublasLtHandle_t blas) noexcept;
void close_matmul(cublasLtMatmulDesc_t matmul) noexcept;
void close_matmul_preference(cublasLtMatmulPreference_t preference) noexcept;
void close_matrix(cublasLtMatrixLayout_t matrix) noexcept;
void close_dnn(cudnnHandle_t dnn) noexcept;
void close_tensor(cudnnTensorDescriptor_t tensor) noexcept;
void close_filter(cudnnFilterDescriptor_t filter) noexcept;
void close_convolution(cudnnConvolutionDescriptor_t convolution) noexcept;

using Stream = UniqueHandle<cudaStream_t, &close_stream>;
using Event = UniqueHandle<cudaEvent_t, &close_event>;
using Blas = UniqueHandle<cublasHandle_t, &close_blas>;
using BlasLt = UniqueHandle<cublasLtHandle_t, &close_blas_lt>;
using MatmulDescriptor = UniqueHandle<cublasLtMatmulDesc_t, &close_matmul>;
using MatmulPreference = UniqueHandle<cublasLtMatmulPreference_t, &close_matmul_preference>;
using MatrixLayout = UniqueHandle<cublasLtMatrixLayout_t, &close_matrix>;
using Dnn = UniqueHandle<cudnnHandle_t, &close_dnn>;
using TensorDescriptor = UniqueHandle<cudnnTensorDescriptor_t, &close_tensor>;
using FilterDescriptor = UniqueHandle<cudnnFilterDescriptor_t, &close_filter>;
using ConvolutionDescriptor = UniqueHandle<cudnnConvolutionDescriptor_t, &close_convolution>;
static_assert(!std::is_copy_constructible_v<Stream> && std::is_nothrow_move_constructible_v<Stream>);

/// Until all work is done, however it ended.
void drain(cudaStream_t stream) noexcept;

/// On the calling thread's current GPU; independent of the legacy default stream.
Stream make_stream();
/// For ordering only, without a time stamp.
Event make_event();
/// Plain fp32 arithmetic (no TF32), no atomics: the same bits in every run.
Blas make_blas(cudaStream_t stream);
BlasLt make_blas_lt();
/// Plain fp32 arithmetic (no TF32).
MatmulDescriptor make_matmul();
MatmulPreference make_matmul_preference();
/// Column-major fp32.
MatrixLayout make_matrix(std::int64_t rows, std::int64_t columns, std::int64_t leading_dimension);
Dnn make_dnn(cudaStream_t stream);
/// Dense fp32 (N, C, H, W). Throws ConfigError if it has more elements than cuDNN can count.
TensorDescriptor make_tensor(const tensor::Shape& shape);
/// Dense fp32 (out, C / groups, kernel, kernel).
FilterDescriptor make_filter(const tensor::Shape& shape);
/// Cross-correlation in plain fp32 arithmetic (no TF32).
ConvolutionDescriptor make_convolution(const Conv2d& spec);

}  // namespace distdl::kernels::cuda
