// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/cuda/attention/angle_tables.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>

namespace distdl::kernels::cuda {

/// Rotary positions of a layer of 16 bits: a rotated copy of x in the device's scratch memory.
template <class T>
class HeadTurns {
 public:
  HeadTurns(const Device& device, const AttentionExtents& of, double rotary_base)
      : of_(of), tables_(device, of, rotary_base) {}

  /// Bytes of the copy, which the layer must reserve.
  std::size_t bytes() const { return turns() ? sizeof(T) * static_cast<std::size_t>(rows() * of_.width) : 0; }

  /// Returns x itself if there is no rotation.
  const T* turn(const Device& device, const T* x, void* copy) const {
    if (!turns()) return x;
    for_each_row(device, rows(), TurnHeads<T>{of_, x, static_cast<T*>(copy), tables_.get(), 1});
    return static_cast<T*>(copy);
  }
  void turn_back(const Device& device, T* dx) const {
    if (turns()) for_each_row(device, rows(), TurnHeads<T>{of_, dx, dx, tables_.get(), -1});
  }

 private:
  bool turns() const { return tables_.get().cosines != nullptr; }
  std::int64_t rows() const { return of_.samples * of_.places * of_.x_heads(); }

  AttentionExtents of_;
  AngleTables tables_;
};

}  // namespace distdl::kernels::cuda
