// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <distdl/kernels/cuda/optimizers/ranges.hpp>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/optimizer_steps.hpp>

namespace distdl::kernels::cuda {

class Device;

/// Calls call(parameter, moments..., gradient) for element i.
template <class Step, class Call>
DISTDL_HOST_DEVICE auto with_element(const UpdateArenas& arenas, std::size_t i, const Call& call) {
  if constexpr (Step::kMoments == 0)
    return call(arenas.parameters[i], arenas.gradients[i]);
  else if constexpr (Step::kMoments == 1)
    return call(arenas.parameters[i], arenas.moments[0][i], arenas.gradients[i]);
  else
    return call(arenas.parameters[i], arenas.moments[0][i], arenas.moments[1][i], arenas.gradients[i]);
}

/// A body of ranges_kernel(). The result of of(table, number) updates the elements of that range.
template <class Step>
struct Update {
  const Step* step;
  UpdateArenas arenas;
  const double* rates = nullptr;  ///< rates of the ranges if the step is Adaptive
  DISTDL_HOST_DEVICE Step of(const RangeTable& table, std::int64_t number) const {
    Step own = step_of_group(*step, table.ranges[number].options);
    if constexpr (Adaptive<Step>) own.learning_rate = rates[number];
    return own;
  }
  DISTDL_HOST_DEVICE void operator()(const Step& own, std::size_t i) const { with_element<Step>(arenas, i, own); }
};

// Terms of SumOfPart.

struct Square {
  const float* data;
  DISTDL_HOST_DEVICE double operator()(GroupOptions, std::size_t i) const { return elementwise::Square{}(data[i]); }
};

/// Whether a term is taken for the first time, which may change the moments, or again after that.
enum class Terms { first, known };

/// The term of an Adaptive step.
template <class Step, Terms terms>
struct Term {
  const Step* step;
  UpdateArenas arenas;
  DISTDL_HOST_DEVICE double operator()(GroupOptions options, std::size_t i) const {
    const OfElement of_element{step_of_group(*step, options)};
    return with_element<Step>(arenas, i, of_element);
  }

 private:
  struct OfElement {
    Step own;
    template <class... Element>
    DISTDL_HOST_DEVICE double operator()(Element&&... element) const {
      if constexpr (terms == Terms::first)
        return own.term(element...);
      else
        return own.known_term(element...);
    }
  };
};

/// Receives the sums of SumOfRange over the terms.
template <class Step>
struct StoreRate {
  const Step* step;
  const RangeParts* ranges;
  const double* squares;  ///< sums of the squared parameters of each range
  double* rates;
  DISTDL_HOST_DEVICE void operator()(std::int64_t number, double sum) const {
    const GroupOptions options = ranges[number].options;
    const Step own = step_of_group(*step, options);
    rates[number] = options.adapts ? own.trusted_rate(squares[number], sum) : own.learning_rate;
  }
};

// Backend's functions of the same names; steps are in GPU memory. The device's scratch memory must have space for the
// partial sums and for two doubles per range. The table must not be in it.
void update(const Device& device, const OptimizerStep& step, const UpdateArenas& arenas, const RangeTable& table);
void sums_of_squares(const Device& device, const float* data, const RangeTable& table, double* sums);
void sums_of_terms(const Device& device, const AdaptiveStep& step, const UpdateArenas& arenas, const RangeTable& table,
                   double* sums);

}  // namespace distdl::kernels::cuda
