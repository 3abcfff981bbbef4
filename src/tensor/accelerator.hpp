// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <distdl/tensor/buffer.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::tensor {

/// One operand of a reduction. The operands come in the order of the tree's leaves; after `reductions` is the number of
/// times that the two newest partial results are then replaced by their sum: (a + b) + (c + d) is a:0 b:1 c:0 d:2.
struct ReduceSource {
  const void* data = nullptr;
  int reductions = 0;
};

/// A device with its own memory, as far as communication needs it. Only one thread may use it. Work is put into a queue
/// and done in the order of the calls, except that work after a copy_to_host() need not wait for it. Only drain(),
/// allocate() and allocate_staging() wait for the device.
///
/// Functions that put work into a queue throw the device's errors, which earlier work may have caused.
class Accelerator {
 public:
  /// A point in the queue.
  using Mark = std::uint64_t;

  virtual ~Accelerator() = default;
  /// "cuda: NVIDIA H200", for logs and errors.
  virtual std::string description() const = 0;
  /// UCX's name for such memory: "cuda".
  virtual std::string memory_type() const = 0;
  /// Is the address in such memory? Not for null.
  virtual bool owns(const void* address) const = 0;

  /// Memory of the device, aligned to 64 bytes or more, not zeroed.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Host memory that the device copies from and to at full speed.
  virtual Buffer allocate_staging(std::size_t bytes) = 0;

  /// Later work in the queue begins after all work that the caller has started on the device by other ways so far.
  virtual void follow_caller() = 0;
  /// After the returned mark, the bytes are there.
  virtual Mark copy_to_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  /// As comm::reduce(), on the device's memory, with its bits (but for those of a NaN). All memory is aligned to its
  /// elements.
  virtual void reduce(DataType type, Reduction reduction, std::span<const ReduceSource> sources,
                      std::span<void* const> targets, std::size_t count, double scale) = 0;

  /// The end of the queue, apart from copies to the host.
  virtual Mark mark() = 0;
  virtual bool reached(Mark mark) = 0;
  /// Waits for everything, however it ends.
  virtual void drain() noexcept = 0;

  /// A second queue, into which a library of the device's vendor puts its own work, or null: for CUDA a cudaStream_t.
  /// What is put there from now on comes after all that the caller has had the device do so far, but in no order with
  /// the queue above.
  virtual void* library_queue() = 0;
  /// Its end.
  virtual Mark mark_library() = 0;
};

}  // namespace distdl::tensor
