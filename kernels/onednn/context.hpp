// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <dnnl.hpp>

#include <distdl/kernels/backend.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::kernels::onednn {

/// What all layers of one backend share: engine, stream, threads, and one scratchpad, as big as the neediest primitive.
class Context {
 public:
  explicit Context(int threads);

  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }
  int threads() const { return threads_; }
  /// To be called before oneDNN makes or runs a primitive: OpenMP's number of threads belongs to the calling thread.
  void enter() const;
  void reserve_scratchpad(std::size_t bytes);
  void* scratchpad() const { return scratchpad_.data(); }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  int threads_;
  tensor::Buffer scratchpad_;
};

/// ActivationFormat::layout is a dnnl::memory::desc.
dnnl::memory::desc desc_of(const ActivationFormat& format);
ActivationFormat format_of(const tensor::Shape& shape, const dnnl::memory::desc& desc);
/// The same with elements of another type.
ActivationFormat with_type(const ActivationFormat& format, tensor::DataType type);
/// Of 1 to 5 dimensions, row-major.
dnnl::memory::desc dense_desc(const tensor::Shape& shape, tensor::DataType type = tensor::DataType::float32);
/// In the format that the primitive likes best.
dnnl::memory::desc any_desc(const tensor::Shape& shape, tensor::DataType type = tensor::DataType::float32);
/// Attributes of every primitive: its scratchpad is the context's.
dnnl::primitive_attr attributes();

}  // namespace distdl::kernels::onednn
