// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/train/trainer/parameter_blocks.hpp>

namespace distdl::train {
namespace {
constexpr std::size_t kNoLayer = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kAhead = 1;  ///< blocks that are gathered while one computes

bool reads_from(const optim::Elements& part, const model::Network::Elements& elements) {
  return optim::common(part, {elements.first, elements.end}).count() > 0;
}
}  // namespace

void gather_slices(comm::Communicator& communicator, const optim::Elements& part, const optim::Elements& own,
                   std::span<const std::size_t> counts, float* arena, const std::stop_token& stop) {
  if (part.count() == 0) return;
  const comm::Vector all(arena + part.first, part.count(), comm::DataType::float32);
  const comm::ConstVector mine(arena + own.first, own.count(), comm::DataType::float32);
  communicator.all_gather(mine, all, counts).wait(stop);
}

ParameterBlocks::ParameterBlocks(comm::Communicator& communicator, const optim::Shards& shards,
                                 const std::vector<std::vector<std::size_t>>& counts, model::Network& network,
                                 parallel::GradientSum& sum)
    : communicator_(communicator), shards_(shards), counts_(counts), sum_(sum), is_here_(shards.parts.size(), false) {
  plan(network);
  serve(network);
}

void ParameterBlocks::serve(model::Network& network) {
  network.set_before_reads([this](bool backward, std::size_t layer) { before_reads(backward, layer); });
}

/// The parts descend, so that a forward pass gathers from the last one to the first one.
void ParameterBlocks::plan(const model::Network& network) {
  const std::size_t parts = shards_.parts.size();
  first_users_.assign(parts, kNoLayer);
  last_users_.assign(parts, 0);
  const auto forward = network.reads(false), backward = network.reads(true);
  for (std::size_t layer = 0; layer < forward.size(); ++layer) note_users(layer, forward[layer]);
  std::size_t last_reader = 0;
  for (std::size_t part = 0; part < parts; ++part) last_reader = std::max(last_reader, last_users_[part]);
  for (std::size_t part = parts; part-- > 0;)
    if (first_users_[part] != kNoLayer) order_.push_back(part);
  forward_ = order_.size();
  for (std::size_t part = 0; part < parts; ++part)
    if (first_users_[part] != kNoLayer && last_users_[part] < last_reader) order_.push_back(part);

  for (auto& each : needed_) each.assign(forward.size(), 0);
  std::size_t count = 0;
  for (std::size_t layer = 0; layer < forward.size(); ++layer)
    needed_[0][layer] = count = std::max(count, needed_for(forward[layer], 0, forward_));
  count = forward_;
  for (std::size_t layer = forward.size(); layer-- > 0;)
    needed_[1][layer] = count = std::max(count, needed_for(backward[layer], forward_, order_.size()));
  plan_sums();
}

std::size_t ParameterBlocks::needed_for(std::span<const model::Network::Elements> elements, std::size_t begin,
                                        std::size_t end) const {
  const auto reads = [&](std::size_t k) {
    return std::ranges::any_of(elements, [&](const auto& each) { return reads_from(shards_.parts[order_[k]], each); });
  };
  while (end > begin && !reads(end - 1)) --end;
  return end > begin ? end : 0;
}

void ParameterBlocks::note_users(std::size_t layer, std::span<const model::Network::Elements> elements) {
  for (std::size_t part = 0; part < shards_.parts.size(); ++part)
    for (const auto& each : elements)
      if (reads_from(shards_.parts[part], each)) {
        first_users_[part] = std::min(first_users_[part], layer);
        last_users_[part] = std::max(last_users_[part], layer);
      }
}

/// A sum begins when its bucket is computed. A block that is needed before that must not wait for it; the next one is
/// gathered at the same time.
void ParameterBlocks::plan_sums() {
  std::size_t lowest = kNoLayer;
  for (std::size_t part = 0; part < shards_.parts.size(); ++part) {
    lowest = std::min(lowest, first_users_[part]);
    const std::size_t needed = lowest == kNoLayer ? forward_ : needed_[1][lowest];
    before_sums_.push_back(std::min(order_.size(), needed + kAhead));
  }
}

void ParameterBlocks::set_microbatches(std::size_t own, std::size_t most) {
  own_ = own;
  most_ = most;
  auto before = before_sums_;
  for (std::size_t& each : before) each += (most - 1) * order_.size();
  sum_.follow_with(most * order_.size(), std::move(before), [this](std::size_t number, const std::stop_token& stop) {
    const std::size_t part = order_[number % order_.size()];
    gather(part, arena_, stop);
    if (number / order_.size() < most_ - own_ && !stop.stop_requested()) discard(part, arena_);
  });
}

void ParameterBlocks::begin_step() {
  released_ = 0;
  waited_ = 0;
  done_ = (most_ - own_) * order_.size();
  release(done_);
}

void ParameterBlocks::release(std::size_t gathers) {
  if (gathers <= released_) return;
  released_ = gathers;
  sum_.release_followers(gathers);
}

void ParameterBlocks::end_microbatch() {
  done_ += order_.size();
  release(done_);
  sum_.wait_for_followers(done_);
  is_here_.assign(is_here_.size(), true);
  discard_all(arena_);
}

void ParameterBlocks::before_reads(bool backward, std::size_t layer) {
  if (!evaluated_.empty()) return read_in_evaluation(layer);
  const std::size_t needed = needed_[backward ? 1 : 0][layer];
  if (needed > have_) discard_unused(backward, layer, arena_);
  // Sums may wait for the next block even where this one is here already.
  release(done_ + std::min(needed + kAhead, backward ? order_.size() : forward_));
  if (needed <= have_) return;
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  sum_.wait_for_followers(done_ + needed);
  waited_ += watch.seconds();
  enter_phase(RankPhase::compute);
  for (; have_ < needed; ++have_) is_here_[order_[have_]] = true;
}

void ParameterBlocks::begin_evaluation(std::span<float> arena) {
  evaluated_ = arena;
}

void ParameterBlocks::read_in_evaluation(std::size_t layer) {
  if (layer <= layer_) discard_all(evaluated_);  // of the pass before
  layer_ = layer;
  if (needed_[0][layer] > have_) discard_unused(false, layer, evaluated_);
  for (; have_ < needed_[0][layer]; ++have_) {
    gather(order_[have_], evaluated_, {});
    is_here_[order_[have_]] = true;
  }
}

void ParameterBlocks::skip_evaluation() {
  for (std::size_t k = 0; k < forward_; ++k) {
    gather(order_[k], evaluated_, {});
    discard(order_[k], evaluated_);
  }
}

void ParameterBlocks::end_evaluation() {
  discard_all(evaluated_);
  evaluated_ = {};
}

void ParameterBlocks::gather(std::size_t part, std::span<float> arena, const std::stop_token& stop) {
  const auto& own = shards_.of[static_cast<std::size_t>(communicator_.rank().value)][part];
  gather_slices(communicator_, shards_.parts[part], own, counts_[part], arena.data(), stop);
}

void ParameterBlocks::discard(std::size_t part, std::span<float> arena) const {
  const auto& all = shards_.parts[part];
  const auto& own = shards_.of[static_cast<std::size_t>(communicator_.rank().value)][part];
  tensor::discard(std::as_writable_bytes(arena.subspan(all.first, own.first - all.first)));
  tensor::discard(std::as_writable_bytes(arena.subspan(own.end, all.end - own.end)));
}

void ParameterBlocks::discard_unused(bool backward, std::size_t layer, std::span<float> arena) {
  for (std::size_t part = 0; part < is_here_.size(); ++part) {
    if (!is_here_[part] || (backward ? first_users_[part] <= layer : last_users_[part] >= layer)) continue;
    discard(part, arena);
    is_here_[part] = false;
  }
}

void ParameterBlocks::discard_all(std::span<float> arena) {
  for (std::size_t part = 0; part < is_here_.size(); ++part) {
    if (is_here_[part]) discard(part, arena);
    is_here_[part] = false;
  }
  have_ = 0;
}

}  // namespace distdl::train
