// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/server/placement.hpp>
#include <distdl/parallel/server/range_division.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>
#include <distdl/train/server/parameter_server.hpp>

namespace distdl::train {
namespace {
using parallel::server::Mode;
constexpr std::size_t kMostStaleness = 256;
constexpr std::uint32_t kCopyTag = 0x5053, kMoveTag = 0x5054;

/// The shards of all ranks: for a server its range; for a rank without a server an empty one, between the ranges of the
/// servers beside it.
optim::Shards shards_of_ranks(const std::vector<optim::Elements>& ranges, const parallel::Cluster& cluster, int ranks) {
  optim::Shards shards{{{0, ranges.back().end}}, {}};
  std::size_t end = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int server = cluster.server_of(Rank(rank));
    const optim::Elements own = server < 0 ? optim::Elements{end, end} : ranges[static_cast<std::size_t>(server)];
    shards.of.push_back({own});
    end = own.end;
  }
  return shards;
}

optim::Elements slice_of(const optim::Shards& shards, Rank rank) {
  return shards.of.at(static_cast<std::size_t>(rank.value)).front();
}

/// Where each gradient is applied at once, a running statistic changes as often as there are microbatches.
optim::Options options_of_servers(const Recipe& recipe, std::int64_t microbatches) {
  auto options = recipe.optim;
  if (recipe.parallel.servers.mode != Mode::synchronous) options.statistic_weight /= static_cast<double>(microbatches);
  return options;
}

parallel::server::Rules rules_for(const parallel::Options& options, const parallel::server::StepParts& parts,
                                  int servers, std::int64_t steps, bool has_partners) {
  parallel::server::Rules rules;
  rules.mode = options.servers.mode;
  if (rules.mode == Mode::bounded) rules.staleness = options.servers.staleness;
  rules.microbatches = std::ssize(parts.nodes);
  rules.steps = steps;
  rules.ranges = servers;
  rules.has_partners = has_partners;
  rules.late_ticks *= parallel::server::most_microbatches(parts);
  return rules;
}

/// The distance between a server and its partner among the servers, by their hosts.
int distance_of_partners(const parallel::Cluster& cluster) {
  std::vector<std::string> hosts;
  for (const Rank rank : cluster.servers) hosts.push_back(cluster.hosts.at(static_cast<std::size_t>(rank.value)));
  return parallel::server::partner_distance(hosts);
}
}  // namespace

ParameterServer::ParameterServer(const Recipe& recipe, const parallel::Mesh& mesh, parallel::Cluster cluster,
                                 const tensor::ArenaLayout& layout, const parallel::MicrobatchPlan& plan,
                                 double all_terms, Step total)
    : recipe_(recipe),
      layout_(layout),
      world_(mesh.world()),
      cluster_(std::move(cluster)),
      shards_(shards_of_ranks(
          parallel::server::equal_ranges(recipe.optim, layout, static_cast<int>(cluster_.servers.size())), cluster_,
          world_.size())),
      microbatches_(plan.microbatches),
      global_batch_(plan.global_batch()),
      parts_(parallel::server::parts_of(recipe.parallel, static_cast<int>(cluster_.workers.size()))),
      all_terms_(all_terms),
      total_(total),
      partner_distance_(distance_of_partners(cluster_)),
      compensated_(optim::ranges_of(layout, tensor::Role::parameter)) {
  if (cluster_.server_of(world_.rank()) < 0) return;
  backend_ = kernels::make_host_backend(recipe.kernels);
  optimizer_.emplace(options_of_servers(recipe, microbatches_), layout, *backend_);
  sums_ = tensor::reserve_host(layout.size() * sizeof(float));
}

std::vector<optim::Elements> ParameterServer::shard() const {
  return shards_.of.at(static_cast<std::size_t>(world_.rank().value));
}

void ParameterServer::allocate(TrainingState& state) {
  parallel::server::Runtime::Setup setup{
      cluster_,
      {},
      layout_.size(),
      recipe_.parallel.servers.delay_compensation > 0,
      partner_distance_,
      recipe_.parallel.servers.pulls,
      [this](const parallel::server::Keep& one) { keep(one.range, one.version.value); },
      {},
      recipe_.parallel.servers.interface};
  if (!is_synchronous() && parallel::keeps_ranges(recipe_.parallel))
    setup.keep_own = [this](std::int64_t steps) { keep(cluster_.server_of(world_.rank()), steps); };
  for (const Rank rank : cluster_.servers) setup.ranges.push_back(slice_of(shards_, rank));
  const auto ranges = setup.ranges;
  runtime_ = std::make_unique<parallel::server::Runtime>(
      world_, std::move(setup),
      [this](const parallel::server::Apply& apply, const parallel::server::RangeGradient& gradient) {
        update(apply, gradient);
      });
  if (!recipe_.parallel.compression.is_on()) return;
  const double pushes = static_cast<double>(parts_.nodes.size()) / static_cast<double>(cluster_.workers.size());
  compression_.emplace(recipe_.parallel, world_, layout_, ranges, cluster_.workers.back().value + 1,
                       ServerCompression::Messages{pushes, is_synchronous() ? 1 : pushes});
  compression_->allocate(state);
  runtime_->use(compression_->codes());
}

void ParameterServer::computed() {
  if (compression_) compression_->encode(*work_);
  runtime_->computed();
}

std::optional<std::string> ParameterServer::choose_compression(std::int64_t steps, double waited_seconds) {
  if (!compression_) return std::nullopt;
  auto reason = compression_->round_done(steps, waited_seconds);
  if (reason) runtime_->use(compression_->codes());
  return reason;
}

void ParameterServer::begin(TrainingState& state, std::int64_t steps) {
  state_ = &state;
  totals_.assign(static_cast<std::size_t>(steps), {});
  if (compression_ && compression_->begin_round(state.step)) runtime_->use(compression_->codes());
  runtime_->begin(rules_for(recipe_.parallel, parts_, static_cast<int>(cluster_.servers.size()), steps,
                            is_synchronous() && keep_ != nullptr),
                  parts_, state.parameter_arena(), copy_ ? copy_->parameter_arena() : nullptr);
}

void ParameterServer::keep_ranges(const TrainingState& state, KeepRange how) {
  keep_ = std::move(how);
  state_ = &state;
  const int servers = static_cast<int>(cluster_.servers.size()), own = cluster_.server_of(world_.rank());
  if (own >= 0 && servers > 1) {
    copied_range_ = (own - partner_distance_ + servers) % servers;
    allocate_copy();
  }
  copy_to_partner(state);
  if (state.step > Step(0)) {  // else there is nothing to lose
    if (own >= 0) keep(own, 0);
    if (copy_) keep(copied_range_, 0);
  }
  if (world_.rank() == Rank(0) && servers > 1)
    log(Severity::info, "parameter server: each range is kept by its server and by the one {} further, on {}",
        partner_distance_,
        world_.host(cluster_.servers[0]) == world_.host(cluster_.servers[static_cast<std::size_t>(partner_distance_)])
            ? "the same node: its loss costs all since the newest checkpoint"
            : "another node");
}

void ParameterServer::allocate_copy() {
  const Rank rank = cluster_.servers[static_cast<std::size_t>(copied_range_)];
  copy_.emplace();
  copy_->in_host_memory = true;
  train::allocate(*copy_, *backend_, layout_, optimizer_->state(), {slice_of(shards_, rank)}, true);
}

void ParameterServer::copy_to_partner(const TrainingState& state) {
  if (!copy_) return;
  const auto own = static_cast<std::size_t>(cluster_.server_of(world_.rank()));
  const Rank to = cluster_.servers[(own + static_cast<std::size_t>(partner_distance_)) % cluster_.servers.size()];
  const Rank from = cluster_.servers[static_cast<std::size_t>(copied_range_)];
  const auto range = partner_range();
  const auto take = [&](const tensor::Buffer& all, const tensor::Buffer& copy) {
    std::ranges::copy(all.as<float>().subspan(range.first, range.count()),
                      copy.as<float>().subspan(range.first).begin());
  };
  take(state.parameters, copy_->parameters);
  for (std::size_t i = 0; i < state.optimizer.size(); ++i) {
    const auto& [what, memory] = state.optimizer[i];
    const auto& copy = copy_->optimizer[i].memory;
    if (what.kind == optim::StateArena::Kind::average) {
      take(memory, copy);
      continue;
    }
    auto received = world_.receive(std::as_writable_bytes(copy.as<float>().first(range.count())), from, kCopyTag);
    world_.send(std::as_bytes(memory.as<float>().first(shard().front().count())), to, kCopyTag).wait();
    received.wait();
  }
}

void ParameterServer::keep(int range, std::int64_t steps) {
  if (!keep_) return;
  keep_({range, static_cast<int>(cluster_.servers.size()), range == copied_range_ ? *copy_ : *state_, steps,
         is_synchronous() ? steps : steps * microbatches_});
}

ParameterServer::Totals& ParameterServer::totals_of(std::int64_t step) {
  return totals_.at(static_cast<std::size_t>(step));
}

void ParameterServer::update(const parallel::server::Apply& apply, const parallel::server::RangeGradient& gradient) {
  using model::Network;
  const std::int64_t step_of_round = apply.microbatches.front().value / std::ssize(parts_.nodes);
  const Step step(state_->step.value + step_of_round);
  const double terms = std::max(gradient.tail[Network::kCountAt], 1.0F);
  const bool is_own = apply.range != copied_range_;
  if (apply.range == 0 && is_own) {
    Totals& totals = totals_of(step_of_round);
    totals.loss += gradient.tail[Network::kLossAt];
    totals.correct += gradient.tail[Network::kCorrectAt];
    totals.terms += gradient.tail[Network::kCountAt];
  }
  optim::StepInfo now{optim::learning_rate(recipe_.optim, step, total_, global_batch_),
                      step.value,
                      state_->updates + apply.version.value - 1,
                      static_cast<int>(microbatches_),
                      all_terms_ / terms,
                      state_->held_updates};
  if (!is_synchronous()) {  // a microbatch is a part of its step
    now.rate /= static_cast<double>(microbatches_);
    now.microbatches = 1;
  }
  const auto range = is_own ? shard().front() : partner_range();
  std::ranges::copy(gradient.values, sums_.as<float>().begin() + static_cast<std::ptrdiff_t>(range.first));
  if (!gradient.parameters.empty()) compensate(gradient.parameters, now.gradient_scale);
  optimizer_->prepare(sums_.as<float>().data(), now);
  optimizer_->apply((is_own ? *state_ : *copy_).arenas(sums_.as<float>().data()), range);
}

void ParameterServer::compensate(std::span<const float> then, double scale) {
  const auto range = shard().front();
  const auto factor = static_cast<float>(recipe_.parallel.servers.delay_compensation * scale);
  const auto gradients = sums_.as<float>();
  const float* const now = state_->parameter_arena();
  for (const auto& cut : compensated_.within(range))
    for (std::size_t i = cut.offset; i < cut.offset + cut.count; ++i)
      gradients[i] += factor * gradients[i] * gradients[i] * (now[i] - then[i - range.first]);
}

ParameterServer::Round ParameterServer::meet(std::int64_t steps, bool stop, bool save) {
  constexpr std::size_t kRequests = 2, kTotals = 3;
  const auto count = static_cast<std::size_t>(steps);
  std::vector<double> numbers(kRequests + kTotals * count + kMostStaleness);
  numbers[0] = stop ? 1 : 0;
  numbers[1] = save ? 1 : 0;
  auto* const totals = numbers.data() + kRequests;
  for (std::size_t i = 0; i < count; ++i) {
    totals[kTotals * i] = totals_[i].loss;
    totals[kTotals * i + 1] = totals_[i].correct;
    totals[kTotals * i + 2] = totals_[i].terms;
  }
  auto* const staleness = totals + kTotals * count;
  for (std::size_t i = 0; i < runtime_->staleness().size(); ++i)
    staleness[std::min(i, kMostStaleness - 1)] += static_cast<double>(runtime_->staleness()[i]);
  world_.all_reduce(numbers).wait();
  for (const auto& [what, memory] : state_->optimizer)
    if (what.kind == optim::StateArena::Kind::average)
      gather_slices(world_, shards_.parts[0], shard().front(), shards_.counts(0), memory.as<float>().data(), {});
  gather_slices(world_, shards_.parts[0], shard().front(), shards_.counts(0), state_->parameter_arena(), {});
  if (!is_synchronous() && copy_) {  // the own one was kept before the round was over
    copy_to_partner(*state_);
    keep(copied_range_, steps);
  }
  Round round{steps, {}, {}, numbers[0] > 0, numbers[1] > 0};
  for (std::size_t i = 0; i < count; ++i)
    round.totals.push_back({totals[kTotals * i], totals[kTotals * i + 1], totals[kTotals * i + 2]});
  for (std::size_t i = 0; i < kMostStaleness; ++i) round.staleness.push_back(static_cast<std::int64_t>(staleness[i]));
  while (!round.staleness.empty() && round.staleness.back() == 0) round.staleness.pop_back();
  return round;
}

void ParameterServer::move_to(const std::vector<optim::Elements>& ranges, TrainingState& state) {
  auto to = shards_of_ranks(ranges, cluster_, world_.size());
  move_moments(to, state);
  shards_ = std::move(to);
  if (sums_.bytes() > 0) optim::discard_others(sums_.as<float>(), shard());
  runtime_->set_ranges(ranges);
  if (compression_) {
    compression_->set_ranges(ranges);
    runtime_->use(compression_->codes());
  }
  if (copy_) allocate_copy();
  copy_to_partner(state);
}

void ParameterServer::move_moments(const optim::Shards& to, TrainingState& state) {
  state.shard = {slice_of(to, world_.rank())};
  if (cluster_.server_of(world_.rank()) < 0) return;
  for (auto& [what, memory] : state.optimizer)
    if (what.kind == optim::StateArena::Kind::moment) memory = moved(memory, to);
}

tensor::Buffer ParameterServer::moved(const tensor::Buffer& moments, const optim::Shards& to) {
  const auto before = shard().front(), own = slice_of(to, world_.rank());
  const auto floats = [](const tensor::Buffer& memory, const optim::Elements& all, const optim::Elements& some) {
    return memory.as<float>().subspan(some.first - all.first, some.count());
  };
  auto result = backend_->allocate(std::max<std::size_t>(own.count(), 1) * sizeof(float));
  const auto staying = optim::common(before, own);
  if (staying.count() > 0) std::ranges::copy(floats(moments, before, staying), floats(result, own, staying).begin());
  std::vector<comm::Request> requests;
  for (const Rank rank : cluster_.servers) {
    if (rank == world_.rank()) continue;
    const auto coming = optim::common(own, slice_of(shards_, rank)),
               leaving = optim::common(before, slice_of(to, rank));
    if (coming.count() > 0)
      requests.push_back(world_.receive(std::as_writable_bytes(floats(result, own, coming)), rank, kMoveTag));
    if (leaving.count() > 0)
      requests.push_back(world_.send(std::as_bytes(floats(moments, before, leaving)), rank, kMoveTag));
  }
  for (auto& request : requests) request.wait();
  return result;
}

}  // namespace distdl::train
