// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <distdl/tensor/buffer.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::tensor {

/// One operand of a reduction. The operands are in the order of the tree's leaves. After each operand, the two newest
/// partial results are replaced by their sum `reductions` times: (a + b) + (c + d) is a:0 b:1 c:0 d:2.
struct ReduceSource {
  const void* data = nullptr;
  int reductions = 0;
};

/// A device with its own memory, as communication uses it. Only one thread may use it. Work is queued and done in the
/// order of the calls, except that work after a copy_to_host() need not wait for it. Only drain(), allocate() and
/// allocate_staging() wait for the device.
///
/// Functions that queue work throw the device's errors, which earlier work may have caused.
class Accelerator {
 public:
  /// A position in the queue.
  using Mark = std::uint64_t;

  virtual ~Accelerator() = default;
  /// A description for logs and errors, such as "cuda: NVIDIA H200".
  virtual std::string description() const = 0;
  /// UCX's name for this kind of memory, such as "cuda".
  virtual std::string memory_type() const = 0;
  /// Whether the address is in the device's memory. The address must not be null.
  virtual bool owns(const void* address) const = 0;

  /// Memory of the device, aligned to 64 bytes or more. It is not zeroed.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Host memory that the device copies from and to at full speed.
  virtual Buffer allocate_staging(std::size_t bytes) = 0;

  /// Makes later work in the queue wait for all work that the caller has started on the device in other ways so far.
  virtual void follow_caller() = 0;
  /// The copy is complete at the returned mark.
  virtual Mark copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  /// Computes comm::reduce() on the device's memory with the same bits (except those of a NaN). All memory is aligned
  /// to its elements.
  virtual void reduce(DataType type, Reduction reduction, std::span<const ReduceSource> sources,
                      std::span<void* const> targets, std::size_t count, double scale) = 0;

  /// The end of the queue, without copies to the host.
  virtual Mark mark() = 0;
  virtual bool reached(Mark mark) = 0;
  /// Waits until all work has ended, and ignores errors.
  virtual void drain() noexcept = 0;

  /// A second queue for the work of a vendor's library, or null; for CUDA it is a cudaStream_t. Later work in it
  /// follows all work that the caller has started on the device so far. Its order relative to the queue above is
  /// undefined.
  virtual void* library_queue() = 0;
  /// The end of the second queue.
  virtual Mark mark_library() = 0;
};

}  // namespace distdl::tensor
