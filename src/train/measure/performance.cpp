// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <distdl/base/process.hpp>
#include <distdl/model/flops.hpp>
#include <distdl/train/measure/performance.hpp>

namespace distdl::train {
namespace {
/// Figures that a rank sends to all others: FLOPs per sample that it repeats, and its peak in FLOPs per second.
struct OwnCompute {
  double repeated, peak;
};

double shard_bytes(const std::vector<optim::Elements>& shard) {
  double bytes = 0;
  for (const auto& elements : shard) bytes += static_cast<double>(elements.count() * sizeof(float));
  return bytes;
}

/// Adds the bytes of a state that this rank holds: of sharded arenas only the shard.
void add_state(records::ResourcesUsed& used, const TrainingState& state) {
  const auto held = [&](const tensor::Buffer& arena, bool is_cut) {
    return is_cut ? shard_bytes(state.shard) : static_cast<double>(arena.bytes());
  };
  used.parameters += held(state.parameters, state.shards_parameters);
  for (const auto& arena : state.optimizer)
    used.optimizer +=
        held(arena.memory, state.shards_parameters && arena.what.kind == optim::StateArena::Kind::average);
  for (const auto& group : state.groups) add_state(used, group);
}
}  // namespace

Performance::Performance(const model::Description& whole, Engine& engine, const parallel::Mesh& mesh, double peak) {
  OwnCompute own{0, peak};
  const auto networks = engine.networks();
  for (const auto* network : networks) own.repeated += network->repeated_flops();
  own.repeated /= static_cast<double>(networks.front()->samples());
  std::vector<OwnCompute> all(static_cast<std::size_t>(mesh.world().size()));
  mesh.world().all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))).wait();
  double repeated = 0;
  for (const auto& rank : all) repeated += rank.repeated;
  compute_.model_flops = model::flops_of(whole, 1).total();
  compute_.hardware_flops = compute_.model_flops + repeated / mesh.degrees().data;
  if (std::ranges::any_of(all, [](const auto& rank) { return rank.peak <= 0; })) return;
  for (const auto& rank : all) compute_.peak_flops += rank.peak;
}

void Performance::complete(records::StepDone& event) const {
  if (compute_.peak_flops <= 0) return;
  const double share = event.samples_per_s.value_or(0) / compute_.peak_flops;
  event.mfu = compute_.model_flops * share;
  if (compute_.hardware_flops > compute_.model_flops) event.hfu = compute_.hardware_flops * share;
}

bool Performance::is_due() {
  constexpr std::chrono::minutes kEvery{10};
  const auto now = Clock::now();
  if (now < next_) return false;
  next_ = now + kEvery;
  return true;
}

std::string trained_product(const parallel::Options& options, const parallel::Degrees& degrees,
                            model::Network::Activations activations) {
  auto strategy = options.strategy;
  if (degrees.data == 1 && parallel::row_of(strategy).shards_moments) strategy = parallel::Strategy::replicas;
  return parallel::product_name(degrees, strategy, activations == model::Network::Activations::recomputed);
}

records::ResourcesUsed resources_of(const TrainingState& state, Engine& engine,
                                    const comm::Communicator& communicator) {
  records::ResourcesUsed used{state.step};
  add_state(used, state);
  used.gradients = static_cast<double>(engine.gradient_bytes());
  const auto devices = static_cast<double>(engine.devices());
  for (const auto* network : engine.networks()) {
    used.activations += devices * static_cast<double>(network->activation_bytes());
    used.workspace += devices * static_cast<double>(network->workspace_bytes());
  }
  used.peak = peak_resident_bytes();
  for (auto& [name, calls, bytes, seconds] : communicator.traffic()) {
    used.collectives.push_back(std::move(name));
    used.calls.push_back(calls);
    used.moved_bytes.push_back(bytes);
    used.collective_seconds.push_back(seconds);
  }
  return used;
}

}  // namespace distdl::train
