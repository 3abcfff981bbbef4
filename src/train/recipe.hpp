// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/data/options.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/description.hpp>
#include <distdl/model/options.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/train/options.hpp>

namespace distdl::train {

/// All settings that determine the result of a run.
struct Recipe {
  data::Options data;
  model::Options model;
  parallel::Options parallel;
  optim::Options optim;
  train::Options train;
  kernels::Options kernels;
  checkpoint::Options checkpoint;
};

/// Throws ConfigError for invalid values.
void check(const Options& options);

/// Checks the options of a recipe as far as that is possible without its data set. The program that starts the ranks
/// also calls it. Throws ConfigError.
void check(const Recipe& recipe);

constexpr std::int64_t kMostDevices = 16;
/// Whether ranks with so many devices each (run.devices_per_rank) can compute the recipe, on which no bit depends.
/// Throws ConfigError.
void check_devices(const Recipe& recipe, std::int64_t devices);

/// The model of a run on these samples, divided into parallel.tensor_shards. Throws ConfigError.
model::Description model_of(const Recipe& recipe, const data::Source& samples);

/// The number of optimizer steps of a run with so many training samples. Throws ConfigError if this number, or the
/// number of all samples, overflows.
Step steps_of(const Recipe& recipe, std::int64_t samples);

}  // namespace distdl::train
