// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include <fmt/format.h>

#include <distdl/data/source.hpp>
#include <distdl/forecast/work.hpp>
#include <distdl/kernels/layer_flops.hpp>
#include <distdl/model/row_slices.hpp>

namespace distdl::forecast {
namespace {
double count(const tensor::Shape& shape) {
  return static_cast<double>(tensor::element_count(shape));
}

/// Returns the operations that a layer computes in its forward pass: a causal layer computes few of the pairs that it
/// masks.
double computed_flops(const kernels::LayerSpec& spec, const tensor::Shape& input) {
  const auto* const attention = std::get_if<kernels::Attention>(&spec);
  return kernels::flops_of(spec, input).forward / (attention && attention->causal ? 2 : 1);
}
}  // namespace

Workload workload_of(const train::Recipe& recipe) {
  const auto sources =
      data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed));
  const auto& training = *sources.training;
  Workload work;
  work.model = train::model_of(recipe, training);
  work.tensors = model::tensors_of(work.model);
  work.samples = training.samples();
  if (sources.validation) work.validation_samples = sources.validation->samples();
  work.sample_bytes = 4 * tensor::element_count(training.shape());
  work.labels = training.labels_per_sample();
  return work;
}

double forward_flops(const model::Description& model, std::int64_t samples) {
  const auto wiring = model::wire(model, samples);
  double flops = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    flops += computed_flops(model.layers[i].spec, wiring.layers[i].input);
  return flops;
}

std::vector<double> layer_costs(const model::Description& model) {
  constexpr double kMemory = 32;  // a value that is written and read takes as long as so many operations
  const auto wiring = model::wire(model, 1);
  std::vector<double> costs;
  const auto sliced = model::sliced_outputs(model, wiring);
  const double rows = static_cast<double>(model.rows.count) / static_cast<double>(model.rows.slices);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    costs.push_back(computed_flops(model.layers[i].spec, wiring.layers[i].input) +
                    kMemory * count(wiring.layers[i].output));
    if (sliced[i] && model::is_by_rows(model.layers[i].spec)) costs.back() *= rows;
  }
  return costs;
}

std::string identity_of_work(const train::Recipe& recipe, const Workload& work) {
  std::string text =
      fmt::format("{} x {}, {}, {} threads, {}", recipe.parallel.microbatch_size, tensor::to_string(work.model.sample),
                  recipe.kernels.precision, recipe.kernels.threads, recipe.optim.name);
  const auto wiring = model::wire(work.model, 1);
  for (std::size_t i = 0; i < work.model.layers.size(); ++i)
    text +=
        fmt::format(", {} {}", kernels::kind_of(work.model.layers[i].spec), tensor::to_string(wiring.layers[i].output));
  return text;
}

}  // namespace distdl::forecast
