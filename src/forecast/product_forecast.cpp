// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <distdl/forecast/coded_sums.hpp>
#include <distdl/forecast/collective_time.hpp>
#include <distdl/forecast/groups_forecast.hpp>
#include <distdl/forecast/replica.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/activations.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/optim/shards.hpp>

namespace distdl::forecast {
namespace {
constexpr double kMebibyte = 1 << 20;
const Calibration kAssumed{};
constexpr double kMessages = 3 << 20;  ///< for UCX, if a rank sends to other stages: bench/results/forecast.md

/// Number of simulated steps: fewer for many ranks, whose slowest is nearly the same in each.
int steps_for(int ranks) {
  return std::clamp(20000 / ranks, 3, 50);
}

double seconds_alone(const RankWork& work, std::int64_t microbatches) {
  const auto count = static_cast<double>(microbatches);
  return count * (work.forward + work.backward) + (count - 1) * work.add + work.update + work.load + work.rest;
}

class ProductSimulation {
 public:
  ProductSimulation(const Basis& basis, const Product& product)
      : basis_(basis),
        degrees_(product.degrees),
        recipe_(with_product(basis.recipe, product)),
        plan_(parallel::make_plan(recipe_.parallel, degrees_.data)),
        replica_(replica_of(basis, recipe_, degrees_, plan_.ranges.front().count)),
        layout_(replica_.largest().layout()),
        times_(basis.cluster, data_group(false), {plan_.microbatches, plan_.ranges}),
        times_apart_(basis.cluster, data_group(true), {plan_.microbatches, plan_.ranges}),
        times_of_codes_(basis.cluster, data_group(false), {degrees_.data, {}}),
        figures_(basis.machine.calibration ? *basis.machine.calibration : kAssumed) {
    result_.product = product;
    result_.stages = replica_.choice;
  }

  ProductForecast operator()() {
    plan_sums();
    auto& time = result_.step;
    time = simulate_steps(replica_.work, step_, steps_for(degrees_.data), basis_.machine.seed);
    const double idle = (replica_.bubble + gather_share_) * time.compute;
    time.compute -= idle, time.waited += idle;
    if (degrees_.parts() > 1) time.seconds += seconds_to_agree();
    const auto alone = seconds_alone(with_reading(), plan_.microbatches);
    result_.efficiency = alone / basis_.cluster.ranks() / time.seconds;
    result_.sent_bytes = result_.sent_bytes * basis_.cluster.ranks_per_node + replica_.sent_bytes;
    time *= basis_.machine.step_factor;
    add_memory();
    return std::move(result_);
  }

 private:
  RankGroup data_group(bool is_apart) const {
    const int parts = degrees_.parts();
    return {.size = degrees_.data,
            .stride = parts,
            .sharers = std::min(parts, basis_.cluster.ranks_per_node),
            .is_apart = is_apart};
  }

  /// Nodes of a data group.
  int hosts() const { return degrees_.parts() >= basis_.cluster.ranks_per_node ? degrees_.data : basis_.cluster.nodes; }

  RankWork with_reading() const {
    RankWork work = basis_.measured.work;
    if (!basis_.has_spare_processor) work.forward += basis_.measured.read;
    return work;
  }

  /// Seconds in which the ranks of a replica sum the totals.
  double seconds_to_agree() const {
    constexpr std::size_t kNumbers = 16;
    const int ranks = degrees_.parts();
    return CollectiveTimes(basis_.cluster, {.size = ranks}, {ranks, {}}).all_reduce(kNumbers).seconds;
  }

  std::size_t floats() const { return layout_.size() + model::Network::kTail; }

  /// Divides arenas as parallel::GradientSum does.
  std::vector<parallel::Bucket> buckets() const {
    const auto& options = recipe_.parallel;
    const std::size_t count = floats();
    auto places = basis_.places;
    const bool in_turns = parallel::takes_turns(options, degrees_, hosts() == 1);
    if (degrees_.parts() > 1) places = in_turns ? parallel::begins_of_tensors(layout_) : std::vector<std::size_t>();
    if (degrees_.data == 1) places.clear();
    std::size_t least = count;
    if (options.bucket_mib > 0)
      least = static_cast<std::size_t>(options.bucket_mib * kMebibyte / sizeof(float));
    else if (in_turns)
      least = parallel::least_in_turn(options, count);
    else if (basis_.cluster.nodes > 1 && degrees_.parts() == 1)
      least = best_bucket(count);
    return parallel::buckets_of(places, count, least);
  }

  std::size_t best_bucket(std::size_t count) const {
    auto& known = *basis_.best_bucket;
    if (!known) known = parallel::best_bucket(count, [&](std::size_t each) { return times_.expected_by_ranks(each); });
    return *known;
  }

  void plan_sums() {
    if (degrees_.parts() > 1) replica_.work.finals.clear();  // no sum is made while a layer computes
    for (const auto& range : plan_.ranges) step_.microbatches.push_back(replica_.is_pipeline() ? 1 : range.count);
    step_.buckets = buckets();
    step_.floats = floats();
    const bool spreads_tensors = optim::find_rule(recipe_.optim.name).adapts && cuts_tensors();
    const bool needs_all = recipe_.optim.clip_norm > 0 || spreads_tensors ||
                           kernels::activation_type(recipe_.kernels) == tensor::DataType::float16;
    step_.in_parts = step_.buckets.size() > 1 && !needs_all;
    result_.buckets = step_.buckets.size();
    step_.sum_seconds.assign(step_.buckets.size(), 0);
    if (degrees_.data == 1) return;
    if (parallel::row_of(recipe_.parallel.strategy).shards_moments) divide(needs_all);
    for (std::size_t b = 0; b < step_.buckets.size(); ++b) add_sum(b);
  }

  bool cuts_tensors() const { return parallel::row_of(recipe_.parallel.strategy).shards_gradients; }

  optim::Shards shards_for(const tensor::ArenaLayout& layout, std::vector<optim::Elements> parts) const {
    if (cuts_tensors()) return optim::shards_of(optim::Borders::of_rows, layout, degrees_.data, std::move(parts));
    return optim::shards_of(recipe_.optim, layout, degrees_.data, std::move(parts));
  }

  /// As train::SlicedUpdate does.
  void divide(bool needs_all) {
    const auto& buckets = step_.buckets;
    std::vector<optim::Elements> parts;
    parts.reserve(buckets.size());
    for (const auto& bucket : buckets) parts.push_back({bucket.first, std::min(bucket.end, layout_.size())});
    shards_ = shards_for(layout_, std::move(parts));
    scatters_ = shards_->parts.size() == buckets.size() && !recipe_.parallel.compression.is_on();
    std::size_t most = 0;
    for (const auto& own : shards_->of) most = std::max(most, optim::place_in(own, own.size()));
    step_.updated_share = static_cast<double>(most) / static_cast<double>(layout_.size());
    step_.gather_seconds.assign(buckets.size(), 0);
    if (!scatters_ || needs_all) step_.lag = buckets.size();
    for (std::size_t part = 0; part < shards_->parts.size(); ++part) {
      if (shards_->parts[part].count() == 0 || has_common_arena()) continue;
      const auto time = (gathers_blocks() ? times_apart_ : times_).all_gather(gathered_counts(part));
      auto& seconds = step_.gather_seconds[shards_->parts.size() == buckets.size() ? part : buckets.size() - 1];
      seconds += time.seconds;
      if (gathers_blocks())
        seconds += time.node_waits * figures_.nap_seconds +
                   static_cast<double>(shards_->parts[part].count() * sizeof(float)) * figures_.touch_per_byte;
      take_traffic(time);
    }
    if (gathers_blocks()) gather_blocks();
  }

  /// The floats that each rank contributes to the gather of a part, or the size of their codes.
  std::vector<std::size_t> gathered_counts(std::size_t part) const {
    if (!parallel::codes_changes(recipe_.parallel)) return shards_->counts(part);
    auto changes = recipe_.parallel;
    changes.compression.encoding = parallel::encoding_of_changes(changes.compression.encoding);
    std::vector<std::size_t> counts;
    for (const auto& slices : shards_->of) counts.push_back(coded_values(changes, layout_, slices[part]).floats);
    return counts;
  }

  bool shards_parameters() const { return shards_ && parallel::row_of(recipe_.parallel.strategy).shards_parameters; }
  /// Ranks of one node have one arena of all parameters, which all of them read.
  bool has_common_arena() const {
    return shards_parameters() && parallel::share_parameters(recipe_.parallel, degrees_, hosts() == 1);
  }
  bool gathers_blocks() const { return shards_parameters() && !has_common_arena(); }

  /// Adds the waits of each pass over the layers for the parameters of other ranks.
  void gather_blocks() {
    const auto gathers = std::exchange(step_.gather_seconds, {});
    const auto seconds = [](const RankWork& work) { return work.forward + work.backward; };
    const double without = seconds(replica_.work);
    if (degrees_.parts() == 1)
      take_gathers(gathers);
    else
      wait_for_gathers(std::accumulate(gathers.begin(), gathers.end(), 0.0));
    gather_share_ = 1 - without / seconds(replica_.work);
    result_.sent_bytes *= 2 * static_cast<double>(plan_.ranges.front().count);
  }

  /// Adds gathers and waits: the thread of the sums has both in the last pass.
  void take_gathers(const std::vector<double>& gathers) {
    replica_.work = with_gathers(replica_.work, step_.buckets, gathers);
    for (std::size_t b = 0; b < gathers.size(); ++b) step_.sum_seconds[b] += gathers[b];
  }

  /// Adds the gathers to the passes: ranks that own the model together do not compute meanwhile.
  void wait_for_gathers(double of_pass) {
    const bool in_pieces = recipe_.parallel.schedule == parallel::pipeline::Algorithm::zero_bubble;
    const double passes = replica_.is_pipeline() ? plan_.ranges.front().count * (in_pieces ? 3 : 2) : 1;
    if (!replica_.is_pipeline()) replica_.work.forward += of_pass;
    replica_.work.backward += of_pass * passes;
  }

  void take_traffic(const CollectiveTime& time) {
    result_.sent_bytes += time.sent_bytes;
    const double bytes = time.scratch_bytes + time.shared_bytes;  // for the areas, the bytes that are staged there
    result_.memory.sums = std::max(result_.memory.sums, bytes);   // one memory for all, in turn
  }

  void add_sum(std::size_t number) {
    const auto& bucket = step_.buckets[number];
    std::size_t left = bucket.count();
    int waits = 0;
    const auto take = [&](const CollectiveTime& time) {
      step_.sum_seconds[number] += time.seconds;
      waits += time.node_waits;
      take_traffic(time);
      if (bucket.count() > largest_) result_.algorithm = time.algorithm;
      largest_ = std::max(largest_, bucket.count());
    };
    auto& times = gives_back() ? times_apart_ : times_;
    if (scatters_ && shards_->parts[number].count() > 0) {
      take(times.reduce_scatter(shards_->counts(number)));
      left -= shards_->parts[number].count();
    }
    const auto coded = coded_values(recipe_.parallel, layout_, {bucket.first, bucket.first + left});
    const bool is_coded = recipe_.parallel.compression.is_on();
    if (left > 0 && !is_coded) take(times.all_reduce(left));
    if (left > 0 && is_coded) {  // parts of all ranks' codes to their owners, and from these to all
      const auto ranks = static_cast<std::size_t>(degrees_.data);
      const std::vector<std::size_t> counts(ranks, (coded.floats + ranks - 1) / ranks);
      for (int time = 0; time < 2; ++time) take(times_of_codes_.all_gather(counts));  // both send as much
    }
    step_.sum_seconds[number] += coded.seconds;
    const auto bytes =
        static_cast<double>(sizeof(float)) * static_cast<double>(scatters_ ? bucket.count() : coded.floats);
    if (step_.buckets.size() > 1) step_.nap_seconds.push_back(waits * figures_.nap_seconds);
    double stolen = gives_back() ? bytes * figures_.touch_per_byte : 0;
    // Within a node the processors of the ranks do the work of a sum, and elsewhere that of its messages.
    if (!basis_.has_spare_processor)
      stolen += basis_.cluster.nodes == 1 ? step_.sum_seconds[number] : coded.seconds + bytes * busy_per_byte();
    if (step_.buckets.size() > 1) step_.stolen_seconds.push_back(stolen);
  }

  /// Processor seconds per byte of sums between nodes; 0 without a calibration.
  double busy_per_byte() const { return basis_.machine.calibration ? basis_.machine.calibration->busy_per_byte : 0; }

  /// Bytes of the networks of a rank with this pipeline coordinate: those of microbatches, those for the rest of the
  /// validation samples, and copies of borrowed tensors.
  double networks_of(const Replica::Stage& stage) const {
    const bool in_pieces =
        replica_.is_pipeline() && recipe_.parallel.schedule == parallel::pipeline::Algorithm::zero_bubble;
    const std::int64_t samples = plan_.microbatch_size, rest = basis_.work.validation_samples % samples;
    double bytes = 0;
    for (std::size_t i = 0; i < stage.parts.size(); ++i) {
      const auto& part = stage.parts[i];
      bytes += static_cast<double>(stage.slots[i]) *
               basis_.networks->bytes(replica_.model, replica_.wiring, part,
                                      {samples, result_.product.recomputes, in_pieces});
      const NetworkUse of_rest{.samples = rest, .recomputes = result_.product.recomputes};
      if (rest > 0) bytes += basis_.networks->bytes(replica_.model, replica_.wiring, part, of_rest);
      for (const auto& tensor : part.tensors)
        if (tensor.elsewhere && tensor.view.role == tensor::Role::borrowed)
          bytes += static_cast<double>(replica_.stages.size() * tensor.view.count * sizeof(float));
    }
    return bytes;
  }

  static double share_of(const optim::Shards& shards, int replica, const tensor::ArenaLayout& layout) {
    const auto& own = shards.of[static_cast<std::size_t>(replica)];
    return static_cast<double>(optim::place_in(own, own.size())) / static_cast<double>(layout.size());
  }

  /// Fraction of the parameters of a stage whose moments a replica has.
  double share_of(const Replica::Stage& stage, int replica) const {
    const auto& layout = stage.layout();
    if (!shards_) return 1;
    if (&layout == &layout_) return share_of(*shards_, replica, layout);
    return share_of(shards_for(layout, {}), replica, layout);
  }

  /// Whether the memory of gradients is given back after their sums.
  bool gives_back() const {
    return scatters_ && step_.buckets.size() > 1 && parallel::gives_gradients_back(recipe_.parallel, degrees_);
  }

  /// The most floats of buckets that wait for their sums, where their memory is given back then.
  std::size_t waiting_floats() const {
    constexpr std::size_t kWaiting = 3;  // two behind the pass, and the one that it computes
    if (!gives_back()) return 0;
    std::size_t most = 0;
    for (const auto& bucket : step_.buckets) most = std::max(most, bucket.count());
    return kWaiting * most;
  }

  /// Floats of the parts of the shards from which these layers read.
  std::size_t floats_read_by(const model::LayerRange& layers) const {
    std::size_t floats = 0;
    for (const auto& part : shards_->parts)
      for (const auto& tensor : replica_.largest().parts.front().tensors)
        if (tensor.layer >= layers.first && tensor.layer < layers.end && tensor.view.offset >= part.first &&
            tensor.view.offset < part.end) {
          floats += part.count();
          break;
        }
    return floats;
  }

  /// Most floats at a time: the part that computes, the next part, and the tensors that the last layer shares with the
  /// first one.
  std::size_t gathered_floats() const {
    if (!gathers_blocks()) return 0;
    std::size_t next = 0;
    for (const auto& part : shards_->parts) next = std::max(next, part.count());
    std::size_t most = next, first = 0;
    if (result_.product.recomputes)
      for (const std::size_t end :
           model::plan_recomputation(
               model::estimated_activations(replica_.model, 1, kernels::activation_type(recipe_.kernels)))
               .ends)
        most = std::max(most, floats_read_by({std::exchange(first, end), end}));
    const auto& tensors = replica_.largest().parts.front().tensors;
    const bool shares = std::ranges::any_of(tensors, [](const auto& tensor) { return tensor.shared; });
    return next + most + (shares ? shards_->parts.back().count() : 0);
  }

  MemoryParts memory_of(int rank) {
    const int parts = degrees_.parts(), here = basis_.cluster.ranks_per_node;
    const auto& stage = replica_.stages[static_cast<std::size_t>(rank % parts / (degrees_.context * degrees_.tensor))];
    const bool reads = &stage == &replica_.stages.front() || &stage == &replica_.stages.back();
    const int replica = rank / parts;
    const RankPart part{stage.layout(),
                        plan_.ranges[static_cast<std::size_t>(replica)],
                        share_of(stage, replica),
                        waiting_floats(),
                        gathered_floats(),
                        hosts(),
                        replica == 0 || (rank - parts) / here != rank / here,
                        reads};
    auto memory = state_memory(recipe_, basis_.work, part);
    result_.written_bytes = std::max(result_.written_bytes, written_bytes(recipe_, part));
    memory.network = networks_of(stage);
    memory.program += basis_.measured.program_bytes + (replica_.is_pipeline() ? kMessages : 0);
    memory.sums += result_.memory.sums + replica_.scratch_bytes + stage.room_bytes;
    return memory;
  }

  /// Adds addresses, without those of the program itself, which it has already. An arena of which other ranks have a
  /// part reserves addresses for all of it.
  void add_addresses(const MemoryParts& memory) {
    const auto arena = static_cast<double>(layout_.size() * sizeof(float));
    const double own = memory.total() - memory.program, gradients = gives_back() ? 0 : memory.gradients;
    const double values = shards_ ? memory.parameters : 0;
    const double of_gradients = gives_back() ? std::max(0.0, arena - memory.gradients) : 0;
    const double of_values = shards_parameters() ? std::max(0.0, arena - memory.parameters) : 0;
    const double of_others = result_.readers * (gradients + (shards_parameters() ? 0 : values));
    const double shared = degrees_.data == 1 ? 0 : gradients + (gathers_blocks() ? 0 : values);
    result_.address_bytes = std::max(result_.address_bytes, own + of_gradients + of_values + of_others);
    result_.data_bytes = std::max(result_.data_bytes, own - shared + of_gradients + (gathers_blocks() ? of_values : 0));
  }

  /// Nodes differ where their ranks have other stages.
  void add_memory() {
    const int parts = degrees_.parts(), here = basis_.cluster.ranks_per_node;
    result_.readers = (here - 1) / parts;
    const int nodes = std::min(basis_.cluster.nodes, parts / std::gcd(parts, here));
    MemoryParts most;
    for (int node = 0; node < nodes; ++node) {
      double bytes = 0;
      for (int rank = node * here; rank < (node + 1) * here; ++rank) {
        auto memory = memory_of(rank);
        memory *= basis_.machine.memory_factor;
        bytes += memory.total();
        add_addresses(memory);
        if (memory.total() > most.total()) most = memory;
        if (rank == 0) result_.first_rank = memory;
      }
      result_.node_bytes = std::max(result_.node_bytes, bytes);
    }
    result_.memory = most;
    const auto& limits = basis_.machine.limits;
    result_.fits = result_.node_bytes <= node_memory(basis_.machine) &&
                   result_.address_bytes <= static_cast<double>(limits.addresses) &&
                   result_.data_bytes <= static_cast<double>(limits.data);
  }

  const Basis& basis_;
  parallel::Degrees degrees_;
  train::Recipe recipe_;
  parallel::MicrobatchPlan plan_;
  Replica replica_;
  const tensor::ArenaLayout& layout_;  ///< layout of the rank with the most parameters
  CollectiveTimes times_;              ///< collectives of its data group
  CollectiveTimes times_apart_;  ///< the same collectives in memory that can be given back, which a node does not share
  CollectiveTimes times_of_codes_;  ///< a rank sends a code of the sum of its microbatches
  const Calibration& figures_;
  std::optional<optim::Shards> shards_;
  bool scatters_ = false;
  double gather_share_ = 0;  ///< fraction of a rank's microbatches in which it waits for parameters
  StepPlan step_;
  std::size_t largest_ = 0;  ///< largest bucket so far
  ProductForecast result_;
};
}  // namespace

std::vector<ProductForecast>::const_iterator best_of(const std::vector<ProductForecast>& products) {
  constexpr double kAsFast = 1.01;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& each : products)
    if (each.fits) least = std::min(least, each.step.seconds);
  return std::ranges::find_if(
      products, [&](const ProductForecast& each) { return each.fits && each.step.seconds <= kAsFast * least; });
}

ProductForecast forecast_product(const Basis& basis, const Product& product) {
  return product.degrees.groups > 0 ? forecast_groups(basis, product) : ProductSimulation(basis, product)();
}

}  // namespace distdl::forecast
