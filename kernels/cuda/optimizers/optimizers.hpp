// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/optimizers/ranges.hpp>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/elementwise/optimizers.hpp>

namespace distdl::kernels::cuda {

class Device;

struct MomentumArenas {
  float* parameters;
  float* momentum;
  const float* gradients;
  template <class Update>
  DISTDL_HOST_DEVICE void operator()(const Update& update, std::size_t i) const {
    update(parameters[i], momentum[i], gradients[i]);
  }
};

struct AdamArenas {
  float* parameters;
  float* first;
  float* second;
  const float* gradients;
  DISTDL_HOST_DEVICE void operator()(const elementwise::AdamUpdate& update, std::size_t i) const {
    update(parameters[i], first[i], second[i], gradients[i]);
  }
  DISTDL_HOST_DEVICE void operator()(const elementwise::LambUpdate& update, std::size_t i) const {
    update(parameters[i], first[i], second[i]);
  }
};

// Bodies of ranges_kernel(): what of(table, number) gives updates the elements of that range.

template <class Update, class Arenas>
struct Updates {
  using Step = decltype(Update::step);
  const Step* step;
  Arenas arenas;
  const double* rates = nullptr;  ///< of the ranges; nullptr: the step's
  DISTDL_HOST_DEVICE Update of(const RangeTable& table, std::int64_t number) const {
    Update update{elementwise::treated(*step, table.ranges[number].options)};
    if (rates) update.step.learning_rate = static_cast<decltype(Step::learning_rate)>(rates[number]);
    return update;
  }
  DISTDL_HOST_DEVICE void operator()(const Update& update, std::size_t i) const { arenas(update, i); }
};
using Sgd = Updates<elementwise::SgdUpdate, MomentumArenas>;
using Lars = Updates<elementwise::LarsUpdate, MomentumArenas>;
using AdamW = Updates<elementwise::AdamUpdate, AdamArenas>;
using Lamb = Updates<elementwise::LambUpdate, AdamArenas>;

struct RunningAverages {
  const AverageStep* step;
  float* value;
  const float* observed;
  DISTDL_HOST_DEVICE elementwise::RunningAverage of(const RangeTable&, std::int64_t) const { return {*step}; }
  DISTDL_HOST_DEVICE void operator()(const elementwise::RunningAverage& update, std::size_t i) const {
    value[i] = update(value[i], observed[i]);
  }
};

// Terms of SumOfPart.

struct Square {
  const float* data;
  DISTDL_HOST_DEVICE double operator()(GroupOptions, std::size_t i) const { return elementwise::Square{}(data[i]); }
};

struct LambTerm {
  const AdamStep* step;
  AdamArenas arenas;
  DISTDL_HOST_DEVICE double operator()(GroupOptions options, std::size_t i) const {
    const elementwise::LambMoments moments{elementwise::treated(*step, options)};
    return moments(arenas.parameters[i], arenas.first[i], arenas.second[i], arenas.gradients[i]);
  }
};

/// Takes the sum of SumOfRange over the squares of LARS's gradients or LAMB's directions.
template <class Step>
struct StoreRate {
  const Step* step;
  const RangeParts* ranges;
  const double* squares;  ///< of the parameters of each range
  double* rates;
  DISTDL_HOST_DEVICE void operator()(std::int64_t number, double sum) const {
    const GroupOptions options = ranges[number].options;
    const Step own = elementwise::treated(*step, options);
    rates[number] = (options.adapts ? elementwise::trusted(own, squares[number], sum) : own).learning_rate;
  }
};

// As Backend's calls of the same names; steps are in the GPU's memory. The device's scratch, which is not where the
// table lies, has places for the partial sums and, twice, for a double of each range.
void sgd(const Device& device, const SgdStep* step, const MomentumArenas& arenas, const RangeTable& table);
void lars(const Device& device, const LarsStep* step, const MomentumArenas& arenas, const RangeTable& table);
void adamw(const Device& device, const AdamStep* step, const AdamArenas& arenas, const RangeTable& table);
void lamb(const Device& device, const AdamStep* step, const AdamArenas& arenas, const RangeTable& table);
void running_average(const Device& device, const RunningAverages& averages, const RangeTable& table);
void sums_of_squares(const Device& device, const float* data, const RangeTable& table, double* sums);

}  // namespace distdl::kernels::cuda
