// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/model/description.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::forecast {

/// A job's model, and the samples that it is trained on.
struct Workload {
  model::Description model;
  model::ModelTensors tensors;
  std::int64_t samples = 0, validation_samples = 0;  ///< numbers in the data sets
  std::int64_t sample_bytes = 0, labels = 1;         ///< in host memory
};

/// Opens the job's data sets. Throws ConfigError and StorageError as a rank would.
Workload workload_of(const train::Recipe& recipe);

/// Returns the multiplications and additions of a forward pass of `samples` samples: those of linear layers,
/// convolutions and attention. A backward pass has about twice as many (Chinchilla: Hoffmann et al. 2022, appendix F).
double forward_flops(const model::Description& model, std::int64_t samples);

/// Returns the cost of each layer's passes of one sample, in any unit: its multiplications and additions, and the
/// values that it writes.
std::vector<double> layer_costs(const model::Description& model);

/// Returns all that the time of a microbatch depends on: model, microbatch, precision, threads. Equal texts have equal
/// times on equal nodes.
std::string identity_of_work(const train::Recipe& recipe, const Workload& work);

}  // namespace distdl::forecast
