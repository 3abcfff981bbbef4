// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/forecast/coded_sums.hpp>
#include <distdl/forecast/collective_time.hpp>
#include <distdl/forecast/groups_forecast.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/groups.hpp>

namespace distdl::forecast {
namespace {
constexpr std::size_t kFigures = 6;  ///< numbers that a group tells after each step: train::LocalSgd::Figures

/// The ranks of a group, as a cluster of their own.
Cluster cluster_of_group(const Cluster& all, int ranks) {
  Cluster own = all;
  own.ranks_per_node = std::min(all.ranks_per_node, ranks);
  own.nodes = (ranks + own.ranks_per_node - 1) / own.ranks_per_node;
  return own;
}

/// Adds the arenas of the groups of a rank, and of what they have in common.
void add_arenas(MemoryParts& memory, const parallel::Options& options, double arena, int here) {
  memory.moments *= here;
  memory.parameters += arena * here;
  if (options.local_sgd.outer != parallel::Outer::mean) memory.moments += arena;
  if (options.compression.is_on()) memory.sums += 2 * arena;
}

/// Bytes of a checkpoint that a node writes: its part of the average and the outer momentum, and its groups' states.
double bytes_written(const Basis& basis, double arena, int here) {
  const auto& options = basis.recipe.parallel;
  const auto states = static_cast<double>(optim::state_of(basis.recipe.optim).size());
  const double outer = options.local_sgd.outer == parallel::Outer::mean ? 0 : 1;
  return arena * ((1 + outer) / basis.cluster.nodes + here * (1 + states)) + (options.compression.is_on() ? arena : 0);
}
}  // namespace

ProductForecast forecast_groups(const Basis& basis, const Product& product) {
  const auto& options = basis.recipe.parallel;
  const auto& cluster = basis.cluster;
  const int ranks = cluster.ranks(), groups = product.degrees.groups;
  const int of_group = std::max(1, ranks / groups), here = (groups + ranks - 1) / ranks;
  train::Recipe recipe = basis.recipe;
  recipe.parallel.strategy = parallel::Strategy::replicas;
  recipe.parallel.compression.encoding = parallel::Compression::none;
  recipe.parallel.microbatches /= groups;
  Basis own{recipe,
            basis.work,
            basis.machine,
            cluster_of_group(cluster, of_group),
            basis.measured,
            basis.is_measured,
            basis.has_spare_processor,
            basis.places,
            basis.networks,
            {},
            basis.stage_costs};
  auto result = forecast_product(own, {{of_group}, parallel::Strategy::replicas, product.recomputes});
  result.product = product;

  CollectiveTimes times(cluster, {.size = ranks}, parallel::leaves_of_groups(groups, ranks));
  const auto& layout = basis.work.tensors.layout;
  const auto coded = coded_values(options, layout, {0, layout.size()});
  const auto steps = static_cast<double>(options.local_sgd.steps);
  double meeting = basis.measured.work.add * (here + 2) / steps, sent = 0;
  if (ranks > 1) {
    const auto round = times.all_reduce(coded.floats);
    meeting += times.all_reduce(kFigures, sizeof(double)).seconds + (round.seconds + coded.seconds) / steps;
    sent = round.sent_bytes * cluster.ranks_per_node / steps;
    result.memory.sums = std::max(result.memory.sums, round.scratch_bytes + round.shared_bytes);
    result.algorithm = round.algorithm;
  }
  auto& step = result.step;
  const double alone = groups * result.efficiency * of_group * step.seconds;
  step *= here;
  step.seconds += meeting * basis.machine.step_factor;
  step.sum += meeting * basis.machine.step_factor;
  step.waited += meeting * basis.machine.step_factor;
  result.efficiency = alone / ranks / step.seconds;
  result.sent_bytes = result.sent_bytes * here + sent;

  const auto arena = static_cast<double>(layout.size() * sizeof(float));
  const double before = result.memory.total();
  const double written = bytes_written(basis, arena, here);
  for (auto* memory : {&result.memory, &result.first_rank}) {
    add_arenas(*memory, options, arena, here);
    memory->snapshots *= written / result.written_bytes;
  }
  const double more = result.memory.total() - before;
  result.node_bytes = (result.node_bytes / own.cluster.ranks_per_node + more) * cluster.ranks_per_node;
  result.address_bytes += more;
  result.data_bytes += more;
  result.written_bytes = written;
  result.fits = result.node_bytes <= node_memory(basis.machine);
  return result;
}

}  // namespace distdl::forecast
