// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>

namespace distdl::optim {

/// Numbers that a backend computes in its own memory and the host reads together.
class Sums {
 public:
  Sums(kernels::Backend& backend, std::size_t count)
      : backend_(backend), memory_(backend.allocate(count * sizeof(double))), host_(count) {}

  /// The address in the backend's memory.
  double* at(std::size_t index) const { return static_cast<double*>(memory_.data()) + index; }
  /// Waits for the backend. The result is valid until the next call.
  std::span<const double> read() {
    backend_.copy_to_host(host_.data(), memory_.data(), host_.size() * sizeof(double));
    return host_;
  }

 private:
  kernels::Backend& backend_;
  tensor::Buffer memory_;
  std::vector<double> host_;
};

}  // namespace distdl::optim
