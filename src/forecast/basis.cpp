// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <distdl/forecast/product_forecast.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/unavailable.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::forecast {
namespace {
// Assumptions about nodes that were not calibrated: a processor's core of today, with AVX2.
constexpr double kFlopsPerThread = 30e9, kMemoryRate = 8e9;
constexpr double kProgramBytes = 16e6;

/// Assumes that gradients become final in proportion to the layers' costs.
std::vector<FinalGradients> counted_finals(const Workload& work, double backward,
                                           const std::vector<std::size_t>& places) {
  const auto costs = layer_costs(work.model);
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<FinalGradients> finals;
  for (const std::size_t place : places) {
    std::size_t layer = costs.size();
    for (const auto& tensor : work.tensors.tensors)
      if (!tensor.shared && tensor.view.offset >= place) layer = std::min(layer, tensor.layer);
    const auto first = costs.begin() + static_cast<std::ptrdiff_t>(place == 0 ? 0 : layer);
    finals.push_back({place, backward * std::accumulate(first, costs.end(), 0.0) / all});
  }
  return finals;
}

MeasuredWork counted_work(const train::Recipe& recipe, const Workload& work, const Machine& machine,
                          const std::vector<std::size_t>& places) {
  const double measured = machine.calibration ? machine.calibration->flops_per_second(machine.ranks_per_node) : 0;
  const double rate = measured > 0 ? measured : kFlopsPerThread * static_cast<double>(recipe.kernels.threads);
  const auto floats = static_cast<double>(work.tensors.layout.size());
  MeasuredWork counted;
  counted.flops = forward_flops(work.model, recipe.parallel.microbatch_size);
  constexpr double kPasses = 3;  // a backward pass takes about two
  counted.work.forward = machine.microbatch_seconds > 0 ? machine.microbatch_seconds / kPasses : counted.flops / rate;
  counted.work.backward = 2 * counted.work.forward;
  counted.work.finals = counted_finals(work, counted.work.backward, places);
  counted.work.add = 12 * floats / kMemoryRate;  // two read, one written
  counted.work.update = 20 * floats / kMemoryRate;
  counted.program_bytes = kProgramBytes;
  return counted;
}

void take_work(Basis& basis) {
  const auto& [recipe, machine] = std::tie(basis.recipe, basis.machine);
  const auto* const known =
      machine.calibration ? machine.calibration->find(identity_of_work(recipe, basis.work), machine.ranks_per_node)
                          : nullptr;
  if (known) {
    basis.measured = *known;
    basis.is_measured = machine.not_of_these.empty();
    if (!basis.is_measured)
      basis.warnings.push_back(fmt::format("the figures of this model and of the network were measured elsewhere: {}",
                                           machine.not_of_these));
    if (known->ranks != machine.ranks_per_node)
      basis.warnings.push_back(fmt::format(
          "the model was measured with {} rank{} on a node, not with {}: ranks that share memory may be slower",
          known->ranks, known->ranks == 1 ? "" : "s", machine.ranks_per_node));
    // Ranks that are not bound may all use the same processors.
    const int share = std::max(1, machine.calibration->kind.processors / machine.ranks_per_node);
    basis.has_spare_processor = std::min(known->processors, share) > recipe.kernels.threads;
    return;
  }
  basis.measured = counted_work(recipe, basis.work, machine, basis.places);
  basis.is_measured = machine.microbatch_seconds > 0;
  if (basis.is_measured) {
    basis.warnings.push_back(fmt::format(
        "only what a microbatch takes was measured, {:.3g} s in an earlier start of the run; \"distdl bench calibrate "
        "JOB\" on such a node measures the rest",
        machine.microbatch_seconds));
    return;
  }
  basis.warnings.push_back(
      machine.calibration && machine.calibration->flops_per_second(1) > 0
          ? "this model was not measured on such nodes: its time is counted from its multiplications and the speed of "
            "other models; \"distdl bench calibrate JOB\" on such a node measures it"
          : fmt::format(
                "nothing was measured on such nodes: {:.0f} GFLOP/s per thread, {:.0f} GB/s of memory and {:.0f} MiB "
                "for the program are assumed; \"distdl bench calibrate JOB\" on such a node measures them",
                kFlopsPerThread / 1e9, kMemoryRate / 1e9, kProgramBytes / (1 << 20)));
}

void take_cluster(Basis& basis) {
  const auto& machine = basis.machine;
  basis.cluster = {machine.nodes, machine.ranks_per_node, machine.fabric, {}, {}};
  auto& costs = basis.cluster.costs;
  if (machine.calibration) costs.processors = machine.calibration->kind.processors;
  if (machine.calibration && machine.calibration->costs)
    costs = *machine.calibration->costs;
  else if (machine.nodes * machine.ranks_per_node > 1 && (machine.rate <= 0 || machine.latency <= 0))
    basis.warnings.push_back(
        fmt::format("the network was not measured: {:.3g} us and {:.3g} Gbit/s between nodes are assumed where "
                    "--latency and --rate "
                    "say nothing; \"srun -N 2 distdl bench calibrate JOB\" measures it",
                    costs.between.latency * 1e6, costs.between.bandwidth * 8e-9));
  if (machine.rate > 0) costs.between.bandwidth = machine.rate;
  if (machine.latency > 0) costs.between.latency = machine.latency;
  basis.cluster.known.processors = costs.processors;
  if (machine.is_tuned) basis.cluster.known = costs;
}

void take_network(Basis& basis) {
  kernels::Options kernels = basis.recipe.kernels;
  const auto make = [&] {
    return make_dry_network(kernels, basis.work.model, basis.work.tensors,
                            {.samples = basis.recipe.parallel.microbatch_size});
  };
  try {
    basis.places = make().places;
  } catch (const kernels::BackendUnavailable& error) {
    basis.warnings.push_back(fmt::format("memory is counted as the reference backend needs it: {}", error.what()));
    kernels.backend = "reference";
    basis.places = make().places;
  }
  basis.networks = std::make_shared<DryNetworks>(kernels);
}
}  // namespace

Basis basis_of(const train::Recipe& recipe, const Workload& work, const Machine& machine) {
  Basis basis{recipe, work, machine, {}, {}, false, true, {}, {}, {}};
  take_network(basis);
  take_work(basis);
  basis.stage_costs = stage_costs(recipe, work, machine);
  take_cluster(basis);
  return basis;
}

double node_memory(const Machine& machine) {
  if (machine.memory_bytes > 0) return static_cast<double>(machine.memory_bytes);
  if (machine.calibration && machine.calibration->memory_bytes > 0)
    return static_cast<double>(machine.calibration->memory_bytes);
  return static_cast<double>(train::memory_of_node());
}

}  // namespace distdl::forecast
