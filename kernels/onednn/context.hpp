// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <dnnl.hpp>

#include <distdl/kernels/backend.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::kernels::onednn {

/// The objects that all layers of one backend share: engine, stream, threads, and a scratchpad as large as the largest
/// that a primitive needs.
class Context {
 public:
  explicit Context(int threads);

  const dnnl::engine& engine() const { return engine_; }
  const dnnl::stream& stream() const { return stream_; }
  int threads() const { return threads_; }
  /// Must be called before oneDNN creates or runs a primitive, because OpenMP's number of threads belongs to the
  /// calling thread.
  void enter() const;
  void reserve_scratchpad(std::size_t bytes);
  void* scratchpad() const { return scratchpad_.data(); }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  int threads_;
  tensor::Buffer scratchpad_;
};

/// Whether oneDNN may use this instruction set of x86 here; on Arm the same numbers mean others, and it is false.
bool includes(dnnl::cpu_isa isa);

dnnl::memory::data_type type_of(tensor::DataType type);
/// ActivationFormat::layout is a dnnl::memory::desc, and is absent where the format is dense.
dnnl::memory::desc desc_of(const ActivationFormat& format);
/// Makes no descriptor, because those of oneDNN 3 are allocated and a step asks this.
bool same_layout(const ActivationFormat& one, const ActivationFormat& other);
/// `desc` has this shape and type; oneDNN's functions that say so changed their names.
ActivationFormat format_of(const tensor::Shape& shape, tensor::DataType type, const dnnl::memory::desc& desc);
/// Returns the same format with elements of another type, for formats that planes_of() supports.
ActivationFormat with_type(const ActivationFormat& format, tensor::DataType type);
/// A row-major descriptor of 1 to 5 dimensions.
dnnl::memory::desc dense_desc(const tensor::Shape& shape, tensor::DataType type = tensor::DataType::float32);
/// A descriptor that lets the primitive choose its format.
dnnl::memory::desc any_desc(const tensor::Shape& shape, tensor::DataType type = tensor::DataType::float32);
/// Attributes of every primitive: its scratchpad is the context's.
dnnl::primitive_attr attributes();

}  // namespace distdl::kernels::onednn
