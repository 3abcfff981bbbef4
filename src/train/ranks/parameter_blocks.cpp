// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>

namespace distdl::train {
namespace {
constexpr std::size_t kNoLayer = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kAhead = 1;  ///< blocks that are gathered while one computes

bool reads_from(const optim::Elements& part, const model::Network::Elements& elements) {
  return optim::common(part, {elements.first, elements.end}).count() > 0;
}

std::span<std::byte> memory_of(std::span<float> arena, const optim::Elements& elements) {
  return std::as_writable_bytes(arena.subspan(elements.first, elements.count()));
}
}  // namespace

void gather_slices(comm::Communicator& communicator, const optim::Elements& part, const optim::Elements& own,
                   std::span<const std::size_t> counts, float* arena, const std::stop_token& stop) {
  if (part.count() == 0) return;
  const comm::Vector all(arena + part.first, part.count(), comm::DataType::float32);
  const comm::ConstVector mine(arena + own.first, own.count(), comm::DataType::float32);
  communicator.all_gather(mine, all, counts).wait(stop);
}

ParameterBlocks::ParameterBlocks(kernels::Backend& backend, comm::Communicator& communicator,
                                 const optim::Shards& shards, const std::vector<std::vector<std::size_t>>& counts,
                                 std::span<model::Network* const> networks, parallel::GradientSum& sum, Thread thread)
    : backend_(backend),
      communicator_(communicator),
      shards_(shards),
      counts_(counts),
      sum_(sum),
      thread_(thread),
      is_here_(shards.parts.size(), false) {
  for (std::size_t stage = 0; stage < networks.size(); ++stage) {
    readers_.push_back(readers_of(*networks[stage]));
    serve(*networks[stage], stage);
  }
  if (thread_ == Thread::of_sums) plan();
}

void ParameterBlocks::serve(model::Network& network, std::size_t stage) {
  network.set_before_reads([this, stage](bool backward, std::size_t layer) { before_reads(stage, backward, layer); });
}

ParameterBlocks::Readers ParameterBlocks::readers_of(const model::Network& network) const {
  Readers readers;
  const std::size_t count = shards_.parts.size();
  readers.first.assign(count, kNoLayer);
  readers.last.assign(count, 0);
  for (const bool backward : {false, true})
    for (const auto& elements : network.reads(backward)) {
      auto& read = readers.parts[backward ? 1 : 0].emplace_back();
      for (std::size_t part = 0; part < count; ++part)
        if (std::ranges::any_of(elements, [&](const auto& each) { return reads_from(shards_.parts[part], each); }))
          read.push_back(part);
    }
  for (std::size_t layer = 0; layer < readers.parts[0].size(); ++layer)
    for (const std::size_t part : readers.parts[0][layer]) {
      readers.first[part] = std::min(readers.first[part], layer);
      readers.last[part] = std::max(readers.last[part], layer);
    }
  return readers;
}

/// The parts descend, so that a forward pass gathers from the last one to the first one.
void ParameterBlocks::plan() {
  const auto& readers = readers_.front();
  const auto &forward = readers.parts[0], &backward = readers.parts[1];
  const std::size_t parts = shards_.parts.size(), last_reader = std::ranges::max(readers.last);
  for (std::size_t part = parts; part-- > 0;)
    if (readers.first[part] != kNoLayer) order_.push_back(part);
  forward_ = order_.size();
  for (std::size_t part = 0; part < parts; ++part)
    if (readers.first[part] != kNoLayer && readers.last[part] < last_reader) order_.push_back(part);

  for (auto& each : needed_) each.assign(forward.size(), 0);
  std::size_t count = 0;
  for (std::size_t layer = 0; layer < forward.size(); ++layer)
    needed_[0][layer] = count = std::max(count, needed_for(forward[layer], 0, forward_));
  count = forward_;
  for (std::size_t layer = forward.size(); layer-- > 0;)
    needed_[1][layer] = count = std::max(count, needed_for(backward[layer], forward_, order_.size()));
  plan_sums();
}

std::size_t ParameterBlocks::needed_for(std::span<const std::size_t> parts, std::size_t begin, std::size_t end) const {
  while (end > begin && std::ranges::find(parts, order_[end - 1]) == parts.end()) --end;
  return end > begin ? end : 0;
}

/// A sum begins when its bucket is computed. A block that is needed before that must not wait for it; the next one is
/// gathered at the same time.
void ParameterBlocks::plan_sums() {
  std::size_t lowest = kNoLayer;
  for (const std::size_t first : readers_.front().first) {
    lowest = std::min(lowest, first);
    const std::size_t needed = lowest == kNoLayer ? forward_ : needed_[1][lowest];
    before_sums_.push_back(std::min(order_.size(), needed + kAhead));
  }
}

void ParameterBlocks::set_microbatches(std::size_t own, std::size_t most) {
  own_ = own;
  most_ = most;
}

parallel::GradientSum::Followers ParameterBlocks::followers() {
  if (thread_ == Thread::of_caller) return {0, sum_.followers_after(0, 0), [](std::size_t, const std::stop_token&) {}};
  auto before = before_sums_;
  for (std::size_t& each : before) each += (most_ - 1) * order_.size();
  return {most_ * order_.size(), std::move(before), [this](std::size_t number, const std::stop_token& stop) {
            const std::size_t part = order_[number % order_.size()];
            gather(part, arena_, stop);
            if (number / order_.size() < most_ - own_ && !stop.stop_requested()) discard(part, arena_);
          }};
}

void ParameterBlocks::begin_step() {
  released_ = done_ = 0;
  waited_ = 0;
}

void ParameterBlocks::join_others() {
  if (thread_ == Thread::of_sums) {
    done_ = (most_ - own_) * order_.size();
    return release(done_);
  }
  for (std::size_t i = own_; i < most_; ++i) {
    for (const bool backward : {false, true}) join_pass(0, backward);
    give_back();
  }
}

void ParameterBlocks::release(std::size_t gathers) {
  if (gathers <= released_) return;
  released_ = gathers;
  sum_.release_followers(gathers);
}

void ParameterBlocks::end_microbatch() {
  if (thread_ == Thread::of_caller) return give_back();
  done_ += order_.size();
  release(done_);
  sum_.wait_for_followers(done_);
  is_here_.assign(is_here_.size(), true);
  discard_all(arena_);
}

void ParameterBlocks::before_reads(std::size_t stage, bool backward, std::size_t layer) {
  if (!evaluated_.empty()) return read_in_evaluation(stage, layer);
  if (thread_ == Thread::of_caller) return read_now(stage, backward, layer);
  const std::size_t needed = needed_[backward ? 1 : 0][layer];
  if (needed > have_) discard_unused(stage, backward, layer, arena_);
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

/// Gives memory back only where more is gathered, so that join_pass() makes the same gathers as a pass, which does not
/// call this for layers without parameters.
void ParameterBlocks::read_now(std::size_t stage, bool backward, std::size_t layer) {
  const auto& parts = readers_[stage].parts[backward ? 1 : 0][layer];
  if (std::ranges::all_of(parts, [&](std::size_t part) { return is_here_[part]; })) return;
  const RankPhase phase = evaluated_.empty() ? RankPhase::compute : RankPhase::evaluate;
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  discard_unused(stage, backward, layer, arena());
  for (const std::size_t part : parts) {
    if (!is_here_[part]) gather(part, arena(), {});
    is_here_[part] = true;
  }
  waited_ += watch.seconds();
  enter_phase(phase);
}

void ParameterBlocks::join_pass(std::size_t stage, bool backward) {
  const std::size_t layers = readers_[stage].parts[0].size();
  for (std::size_t i = 0; i < layers; ++i) read_now(stage, backward, backward ? layers - 1 - i : i);
}

void ParameterBlocks::gather_all(const optim::Elements& elements) {
  for (std::size_t part = 0; part < shards_.parts.size(); ++part) {
    if (is_here_[part] || optim::common(shards_.parts[part], elements).count() == 0) continue;
    gather(part, arena_, {});
    is_here_[part] = true;
  }
}

void ParameterBlocks::make_room(const optim::Elements& elements) {
  backend_.commit(memory_of(arena_, elements));
}

void ParameterBlocks::give_back(const optim::Elements& written) {
  for (std::size_t part = 0; part < shards_.parts.size(); ++part)
    if (optim::common(shards_.parts[part], written).count() > 0) is_here_[part] = true;
  discard_all(arena_);
}

void ParameterBlocks::begin_evaluation(std::span<float> arena) {
  evaluated_ = arena;
}

void ParameterBlocks::read_in_evaluation(std::size_t stage, std::size_t layer) {
  if (stage != stage_ || layer <= layer_) discard_all(evaluated_);  // of the pass before
  stage_ = stage;
  layer_ = layer;
  read_now(stage, false, layer);
}

void ParameterBlocks::join_evaluation(std::size_t stage) {
  discard_all(evaluated_);
  join_pass(stage, false);
  discard_all(evaluated_);
}

void ParameterBlocks::end_evaluation() {
  discard_all(evaluated_);
  evaluated_ = {};
}

void ParameterBlocks::gather(std::size_t part, std::span<float> arena, const std::stop_token& stop) {
  const auto& all = shards_.parts[part];
  const auto& own = shards_.of[static_cast<std::size_t>(communicator_.rank().value)][part];
  backend_.commit(memory_of(arena, all));
  if (!backend_.memory_is_host()) return gather_on_device(all, own, counts_[part], arena.data());
  gather_slices(communicator_, all, own, counts_[part], arena.data(), stop);
}

/// Into memory that was allocated: networks and other processes may be unable to read reserved memory.
void ParameterBlocks::gather_on_device(const optim::Elements& part, const optim::Elements& own,
                                       std::span<const std::size_t> counts, float* arena) {
  if (part.count() == 0) return;
  if (landing_.bytes() == 0) {
    const auto largest = std::ranges::max(shards_.parts, {}, &optim::Elements::count);
    landing_ = backend_.allocate(largest.count() * sizeof(float));
  }
  auto* const landing = static_cast<float*>(landing_.data());
  const optim::Elements landed{own.first - part.first, own.end - part.first};
  if (own.count() > 0) backend_.copy(landing + landed.first, arena + own.first, own.count() * sizeof(float));
  gather_slices(communicator_, {0, part.count()}, landed, counts, landing, {});
  backend_.copy(arena + part.first, landing, part.count() * sizeof(float));
}

void ParameterBlocks::discard(std::size_t part, std::span<float> arena) {
  const auto& all = shards_.parts[part];
  const auto& own = shards_.of[static_cast<std::size_t>(communicator_.rank().value)][part];
  backend_.discard(memory_of(arena, {all.first, own.first}));
  backend_.discard(memory_of(arena, {own.end, all.end}));
}

void ParameterBlocks::discard_unused(std::size_t stage, bool backward, std::size_t layer, std::span<float> arena) {
  const auto& readers = readers_[stage];
  for (std::size_t part = 0; part < is_here_.size(); ++part) {
    if (!is_here_[part] || (backward ? readers.first[part] <= layer : readers.last[part] >= layer)) continue;
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
