// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {

/// What ranks tell each other with the gradients of a step, in the floats that follow them in an arena: the totals that
/// model::Network has written, and requests. One sum over the ranks serves all.
class StepTail {
 public:
  /// `offset`: floats of an arena before the tail. The references must outlive this object.
  StepTail(kernels::Backend& backend, GradientSum& sum, std::size_t offset)
      : backend_(backend), sum_(sum), offset_(offset) {}

  /// Both once per step, after the last GradientSum::add() and before finish().
  void request_stop() { request(kStopAt); }
  void request_save() { request(kSaveAt); }

  struct Sums {
    double loss = 0, correct = 0;     ///< see model::Totals
    double terms = 1;                 ///< of the loss, those that count; at least 1
    bool stop = false, save = false;  ///< a rank has requested it
  };
  /// `sums`: what finish() returned.
  Sums read(const float* sums) const;

 private:
  static constexpr std::size_t kStopAt = 3, kSaveAt = 4;  ///< after model::Network's totals
  void request(std::size_t place) { backend_.fill(sum_.first_partial() + offset_ + place, 1, 1.0f); }

  kernels::Backend& backend_;
  GradientSum& sum_;
  std::size_t offset_;
};

}  // namespace distdl::parallel
