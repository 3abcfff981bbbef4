// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/forecast/collective_time.hpp>
#include <distdl/forecast/replica.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/activations.hpp>
#include <distdl/model/row_slices.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/pipeline/timeline.hpp>
#include <distdl/parallel/shard_sum.hpp>
#include <distdl/parallel/stages.hpp>

namespace distdl::forecast {
namespace {
namespace pipeline = parallel::pipeline;

double sum_of(const std::vector<double>& costs, const model::LayerRange& layers) {
  const auto begin = costs.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(layers.first),
                         begin + static_cast<std::ptrdiff_t>(layers.end), 0.0);
}

/// Divides the measured time of a whole network among its layers.
class LayerTimes {
 public:
  LayerTimes(const Workload& work, const RankWork& measured, const model::Description& held)
      : work_(work), measured_(measured), held_(held), costs_(layer_costs(work.model)), own_(layer_costs(held)) {}

  /// The fraction of a pass that these layers of a rank's part take.
  double share(const model::LayerRange& own) const {
    const model::LayerRange whole{in_whole(own.first), in_whole(own.end)};
    return share_of_whole(whole) * sum_of(own_, own) / sum_of(costs_, whole);
  }

 private:
  /// A stage begins with a layer that exists once, or with the first shard of the embedding or of the head.
  std::size_t in_whole(std::size_t layer) const {
    if (layer == held_.layers.size()) return work_.model.layers.size();
    const auto name_of = [](const model::NamedLayer& one) { return one.shard ? one.shard->of : one.name; };
    const auto found = std::ranges::find(work_.model.layers, name_of(held_.layers[layer]), name_of);
    return static_cast<std::size_t>(found - work_.model.layers.begin());
  }

  double share_of_whole(const model::LayerRange& layers) const {
    if (measured_.finals.empty()) return sum_of(costs_, layers) / sum_of(costs_, {0, costs_.size()});
    return (backward_to(work_, measured_, layers.first) - backward_to(work_, measured_, layers.end)) /
           measured_.backward;
  }

  const Workload& work_;
  const RankWork& measured_;
  const model::Description& held_;
  std::vector<double> costs_, own_;
};

/// Returns the activations of these layers of a model, as if there were no others. `all`: activations of all layers.
std::vector<model::LayerMemory> activations_of(const std::vector<model::LayerMemory>& all,
                                               const model::LayerRange& layers) {
  std::vector<model::LayerMemory> own(all.begin() + static_cast<std::ptrdiff_t>(layers.first),
                                      all.begin() + static_cast<std::ptrdiff_t>(layers.end));
  const auto first = static_cast<int>(layers.first);
  for (auto& layer : own)
    for (int* const read : {&layer.from, &layer.plus})
      if (*read >= 0) *read = *read < first ? model::Wiring::kSample : *read - first;
  return own;
}

/// True if the layer before it writes into this layer's output.
bool joins_before(const model::LayerMemory& layer, const model::LayerMemory& before) {
  return layer.in_place || before.is_summed_later;
}

/// The fraction of a forward pass that is done again: all but the layers that write the kept result of a block, and but
/// the last block. See model::Network::recompute_before().
double repeated_share(const std::vector<model::LayerMemory>& all, const std::vector<double>& costs,
                      const model::LayerRange& layers) {
  const auto own = activations_of(all, layers);
  double repeated = 0;
  std::size_t first = 0;
  for (const std::size_t end : model::plan_recomputation(own).ends) {
    if (end == own.size()) break;
    std::size_t kept = end;
    do --kept;
    while (kept > first && joins_before(own[kept], own[kept - 1]));
    repeated += sum_of(costs, {layers.first + first, layers.first + kept});
    first = end;
  }
  return repeated / sum_of(costs, layers);
}

class ReplicaForecast {
 public:
  ReplicaForecast(const Basis& basis, const train::Recipe& recipe, const parallel::Degrees& degrees, int microbatches)
      : basis_(basis),
        options_(recipe.parallel),
        degrees_(degrees),
        microbatches_(microbatches),
        type_(kernels::activation_type(recipe.kernels)),
        measured_(basis.measured.work),
        chunks_{options_.context_chunks, 0, most_of(context_leaves()).count},
        sums_(basis.cluster, group(degrees.tensor, 1), tensor_leaves()),
        exchanges_(basis.cluster, group(degrees.context, degrees.tensor), context_leaves()) {
    if (!basis.has_spare_processor) measured_.forward += basis.measured.read;
  }

  Replica operator()() {
    hold();
    const LayerTimes times(basis_.work, measured_, replica_.model);
    std::vector<pipeline::StageCosts> costs;
    costs.reserve(stages_.size());
    for (const auto& stage : stages_) costs.push_back(cost_of(times, stage));
    auto& work = replica_.work;
    work = measured_;
    const double share = static_cast<double>(replica_.largest().layout().size()) /
                         static_cast<double>(basis_.work.tensors.layout.size());
    work.add *= share, work.update *= share, work.load *= share;
    if (replica_.is_pipeline())
      pass_stages(costs);
    else
      pass_alone(costs.front());
    replica_.sent_bytes += sums_sent_ * basis_.cluster.ranks_per_node;
    return std::move(replica_);
  }

 private:
  /// A group of each `stride`-th rank. Where groups do not fit into nodes, one that lies on two of them.
  RankGroup group(int ranks, int stride) const {
    const int here = basis_.cluster.ranks_per_node, span = ranks * stride;
    const bool fits = here % span == 0 || span % here == 0 || basis_.cluster.nodes == 1;
    return {.size = ranks,
            .stride = stride,
            .first = fits ? 0 : here - 1,
            .sharers = std::min(stride, here),
            .is_apart = true};
  }

  comm::Leaves tensor_leaves() const {
    return parallel::shards_of_ranks(static_cast<int>(options_.tensor_shards), degrees_.tensor);
  }
  comm::Leaves context_leaves() const {
    return parallel::shards_of_ranks(static_cast<int>(options_.context_chunks), degrees_.context);
  }
  static comm::LeafRange most_of(const comm::Leaves& leaves) {
    return *std::ranges::max_element(leaves.ranges, {}, &comm::LeafRange::count);
  }

  void hold() {
    replica_.model = basis_.work.model;
    if (degrees_.tensor > 1) {
      const auto most = most_of(tensor_leaves());
      replica_.model = model::branches_of(basis_.work.model, static_cast<std::size_t>(most.first),
                                          static_cast<std::size_t>(most.count));
    }
    replica_.model.context = chunks_;
    replica_.wiring = model::wire(replica_.model, 1);
    wiring_ = model::wire(replica_.model, options_.microbatch_size);
    sliced_ = model::sliced_outputs(replica_.model, wiring_);
    if (options_.recompute == parallel::Recompute::blocks) {
      activations_ = model::estimated_activations(replica_.model, 1, type_);
      costs_ = layer_costs(replica_.model);
    }
    const auto whole = model::tensors_of(replica_.model);
    weights_.resize(replica_.model.layers.size());
    for (const auto& tensor : whole.tensors) weights_[tensor.layer] += tensor.view.count;
    const int ranks = degrees_.pipeline, each = parallel::stages_per_rank(options_, ranks);
    replica_.choice = choose_stages(options_, basis_.work.model, replica_.model, ranks, basis_.stage_costs);
    stages_ = replica_.choice.ranges;
    for (int rank = 0; rank < ranks; ++rank) {
      auto parts = model::tensors_of(whole, parallel::stages_of_rank(stages_, rank, ranks));
      replica_.stages.push_back({std::move(parts), std::vector<std::size_t>(static_cast<std::size_t>(each), 1), 0});
    }
  }

  std::size_t activation(std::size_t layer, bool output) const {
    const auto& wired = wiring_.layers[layer];
    return static_cast<std::size_t>(tensor::element_count(output ? wired.output : wired.input));
  }

  /// Seconds in which the ranks of a tensor group communicate in one pass: sums over shards, of outputs forward, of
  /// gradients of inputs backward; and all-gathers of outputs and gradients whose rows lie apart.
  double shard_seconds(const model::LayerRange& layers, bool forward) {
    if (degrees_.tensor == 1) return 0;
    double seconds = 0;
    for (std::size_t i = layers.first; i < layers.end; ++i) {
      const auto& layer = wiring_.layers[i];
      if (layer.shards.empty()) continue;
      const bool sums_outputs = model::sums_outputs(replica_.model.layers[i].shard->split);
      const std::size_t at = sums_outputs ? i : static_cast<std::size_t>(layer.from);
      const auto values = static_cast<std::size_t>(static_cast<double>(activation(at, true)) * chunk_share());
      const std::vector<std::size_t> slices(
          static_cast<std::size_t>(degrees_.tensor),
          values * tensor::size_of(type_) / sizeof(float) / static_cast<std::size_t>(degrees_.tensor));
      if (sums_outputs == forward)
        seconds += take(sliced_[at] ? sums_.reduce_scatter(slices) : sums_.all_reduce(values, tensor::size_of(type_)));
      if (sliced_[at] && !(sums_outputs && forward)) seconds += take(sums_.all_gather(slices));
    }
    return seconds;
  }

  /// The part of the sequences' places that a rank has. Early and late chunks together have about their share of work.
  double chunk_share() const { return static_cast<double>(chunks_.count) / static_cast<double>(chunks_.chunks); }

  double take(const CollectiveTime& time) {
    sums_sent_ += time.sent_bytes * microbatches_ / static_cast<double>(replica_.stages.size());
    replica_.scratch_bytes = std::max(replica_.scratch_bytes, time.scratch_bytes + time.shared_bytes);
    return time.seconds;
  }

  /// Seconds in which the ranks of a context group exchange keys and values.
  double gather_seconds(const model::LayerRange& layers) {
    double seconds = 0;
    for (std::size_t i = layers.first; i < layers.end && degrees_.context > 1; ++i)
      if (const std::size_t values = keys_of(i); values > 0)
        seconds += take(exchanges_.all_gather(std::vector<std::size_t>(
            static_cast<std::size_t>(degrees_.context),
            values * tensor::size_of(type_) / sizeof(float) / static_cast<std::size_t>(degrees_.context))));
    return seconds;
  }
  /// Seconds in which the ranks of a context group sum gradients.
  double chunk_sum_seconds(const model::LayerRange& layers) {
    double seconds = 0;
    for (std::size_t i = layers.first; i < layers.end && degrees_.context > 1; ++i) {
      if (const std::size_t values = keys_of(i); values > 0)
        seconds += take(exchanges_.all_reduce(values, tensor::size_of(type_)));
      if (weights_[i] > 0) seconds += take(exchanges_.all_reduce(weights_[i]));
    }
    return seconds;
  }
  /// Count of keys and values of a microbatch in this layer.
  std::size_t keys_of(std::size_t layer) const {
    const auto* const attention = std::get_if<kernels::Attention>(&replica_.model.layers[layer].spec);
    if (attention == nullptr) return 0;
    const auto keys = static_cast<std::size_t>(2 * kernels::kv_heads_of(*attention));
    return activation(layer, false) * keys / (keys + static_cast<std::size_t>(attention->heads));
  }

  pipeline::StageCosts cost_of(const LayerTimes& times, const model::LayerRange& layers) {
    const double share = times.share(layers) * chunk_share();
    const double forward = share * measured_.forward + shard_seconds(layers, true) + gather_seconds(layers);
    double backward = share * measured_.backward + shard_seconds(layers, false) + chunk_sum_seconds(layers);
    if (options_.recompute == parallel::Recompute::blocks)
      backward += forward * repeated_share(activations_, costs_, layers);
    return {forward, backward / 2, backward / 2};
  }

  void pass_alone(const pipeline::StageCosts& cost) {
    auto& work = replica_.work;
    const double backward = cost.backward_input + cost.backward_weight;
    for (auto& each : work.finals) each.seconds *= backward / measured_.backward;
    work.forward = cost.forward;
    work.backward = backward;
  }

  bool is_far(int from, int to) const {
    return from / basis_.cluster.ranks_per_node != to / basis_.cluster.ranks_per_node;
  }

  /// The slowest transfer from one stage to the next, where all ranks of a stage send at the same time.
  double transfer_seconds() {
    std::size_t most = 0;
    for (std::size_t s = 0; s + 1 < stages_.size(); ++s)
      most = std::max(most, activation(stages_[s].end - 1, true) * tensor::size_of(type_));
    const auto bytes = static_cast<double>(most) * chunk_share();
    const int ranks = degrees_.parts(), of_stage = degrees_.tensor * degrees_.context,
              here = basis_.cluster.ranks_per_node;
    int leaving = 0;  // messages of a microbatch from the first node to another, in both directions
    for (int rank = 0; rank < std::min(here, basis_.cluster.ranks()); ++rank)
      for (const int way : {-of_stage, of_stage}) {
        const int place = rank % ranks, other = place + way;
        if (other >= 0 && other < ranks && is_far(rank, rank + way)) ++leaving;
      }
    bool far = false;
    for (int rank = 0; rank + of_stage < ranks; ++rank) far = far || is_far(rank, rank + of_stage);
    replica_.sent_bytes += leaving * bytes * microbatches_ * parallel::stages_per_rank(options_, degrees_.pipeline);
    const auto costs = costs_with_switches(basis_.cluster);
    message_bytes_ = far ? 0 : bytes;
    const auto& link = far ? costs.between : costs.within;
    return link.latency + bytes * (far ? std::min(of_stage, here) : 1) / link.bandwidth;
  }

  pipeline::Schedule schedule_of(int microbatches) const {
    return pipeline::make_schedule(
        options_.schedule, {degrees_.pipeline, microbatches, parallel::stages_per_rank(options_, degrees_.pipeline)});
  }

  void pass_stages(const std::vector<pipeline::StageCosts>& stages) {
    constexpr int kMostOperations = 1 << 17;
    auto& work = replica_.work;
    pipeline::Costs costs{stages, transfer_seconds()};
    const int each = parallel::stages_per_rank(options_, degrees_.pipeline);
    for (auto& stage : costs.stages) stage.backward_weight += work.add / each;
    const int count = static_cast<int>(costs.stages.size()), half = 4 * count, shorter = 2 * half;
    const bool is_long = microbatches_ > kMostOperations / count && microbatches_ > shorter;
    const auto schedule = schedule_of(is_long ? shorter : microbatches_);
    const auto timeline = pipeline::simulate(schedule, costs);
    double seconds = timeline.seconds;
    if (is_long)
      seconds += (seconds - pipeline::simulate(schedule_of(half), costs).seconds) / half * (microbatches_ - shorter);
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < replica_.stages.size(); ++rank) {
      auto& slots = replica_.stages[rank].slots;
      slots = pipeline::peaks_of_stages(schedule, static_cast<int>(rank));
      for (auto& held : slots)
        if (is_long && held == static_cast<std::size_t>(shorter)) held = static_cast<std::size_t>(microbatches_);
      most = std::max(most, std::accumulate(slots.begin(), slots.end(), std::size_t{0}));
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const std::size_t stage = rank + i * replica_.stages.size();
        const int ways = (stage > 0 ? 1 : 0) + (stage + 1 < stages.size() ? 1 : 0);
        replica_.stages[rank].room_bytes += static_cast<double>(slots[i]) * ways * message_bytes_;
      }
    }
    replica_.bubble = 1 - (1 - timeline.bubble()) * timeline.seconds / seconds *
                              (is_long ? static_cast<double>(microbatches_) / shorter : 1);
    work.load *= static_cast<double>(most);
    work.forward = work.add = 0;
    work.backward = seconds;
    work.finals.clear();
  }

  const Basis& basis_;
  const parallel::Options& options_;
  const parallel::Degrees& degrees_;
  int microbatches_;
  tensor::DataType type_;
  RankWork measured_;
  model::ContextPart chunks_;  ///< chunks of the rank with the most
  CollectiveTimes sums_, exchanges_;
  double sums_sent_ = 0;                         ///< bytes that a rank sends in a step
  double message_bytes_ = 0;                     ///< longest message between stages on one node
  model::Wiring wiring_;                         ///< wiring for a microbatch
  std::vector<bool> sliced_;                     ///< for each layer: rows of its output lie apart
  std::vector<model::LayerMemory> activations_;  ///< with costs_: figures of all layers, for recomputation
  std::vector<double> costs_;
  std::vector<std::size_t> weights_;  ///< number of weights in each layer
  std::vector<model::LayerRange> stages_;
  Replica replica_;
};
}  // namespace

const Replica::Stage& Replica::largest() const {
  return *std::ranges::max_element(stages, {}, [](const Stage& stage) { return stage.layout().size(); });
}

Replica replica_of(const Basis& basis, const train::Recipe& recipe, const parallel::Degrees& degrees,
                   int microbatches) {
  return ReplicaForecast(basis, recipe, degrees, microbatches)();
}

}  // namespace distdl::forecast
