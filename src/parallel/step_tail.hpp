// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {

/// The values that ranks exchange together with the gradients of a step: the totals of model::Network and requests.
/// They are in the floats after the gradients in an arena, so that one sum over the ranks is enough.
class StepTail {
 public:
  /// `offset`: number of floats before the tail in an arena. The references must outlive this object.
  StepTail(kernels::Backend& backend, GradientSum& sum, std::size_t offset)
      : backend_(backend), sum_(sum), offset_(offset) {}

  /// Call the requests at most once per step, after the last GradientSum::add() and before finish().
  void request_stop() { request(kStopAt); }
  void request_save() { request(kSaveAt); }

  struct Sums {
    double loss = 0, correct = 0;     ///< see model::Totals
    double terms = 1;                 ///< counted terms of the loss; at least 1
    bool stop = false, save = false;  ///< any rank has requested it
  };
  /// `sums` is the result of finish().
  Sums read(const float* sums) const;

 private:
  static constexpr std::size_t kStopAt = 3, kSaveAt = 4;  ///< indices after the totals of model::Network
  void request(std::size_t place) { backend_.fill(sum_.first_partial() + offset_ + place, 1, 1.0f); }

  kernels::Backend& backend_;
  GradientSum& sum_;
  std::size_t offset_;
};

}  // namespace distdl::parallel
