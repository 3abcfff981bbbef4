// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <distdl/base/errors.hpp>
#include <distdl/model/context.hpp>
#include <distdl/model/context_chunks.hpp>
#include <distdl/model/parts.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kMostTensorsOfLayer = 4;

std::vector<tensor::Buffer> buffers(kernels::Backend& backend, std::size_t count, std::size_t bytes) {
  std::vector<tensor::Buffer> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(backend.allocate(bytes));
  return all;
}

/// Of each of `samples` rows of `all` numbers, `count` from `first` on.
std::vector<std::int32_t> columns(const void* numbers, std::int64_t samples, std::int64_t all, std::int64_t first,
                                  std::int64_t count) {
  std::vector<std::int32_t> some;
  const auto* const from = static_cast<const std::int32_t*>(numbers);
  for (std::int64_t n = 0; n < samples; ++n)
    some.insert(some.end(), from + n * all + first, from + n * all + first + count);
  return some;
}
}  // namespace

ContextChunks::ContextChunks(kernels::Backend& backend, const Description& model, std::int64_t samples)
    : backend_(backend), samples_(samples), places_(model.sample[0] / model.context.chunks), part_(model.context) {
  check_context(backend, part_.chunks);
  for (std::size_t i = 0; i < static_cast<std::size_t>(part_.count); ++i) {
    const Description own = chunk_of(model, static_cast<std::int64_t>(chunk(i)), part_.chunks);
    own_.push_back(std::make_unique<Network>(backend, own, tensors_of(own), samples));
    if (i > 0) continue;
    const Wiring wiring = wire(own, samples);
    for (std::size_t at = 0; at < own.layers.size(); ++at) {
      Join& join = joins_.emplace_back();
      const auto* spec = std::get_if<kernels::JoinContext>(&own.layers[at].spec);
      if (spec == nullptr) continue;
      const auto width = static_cast<std::size_t>(wiring.layers[at].input[2] / (spec->heads + 2 * spec->kv_heads));
      join = {static_cast<std::size_t>(spec->heads) * width, 2 * static_cast<std::size_t>(spec->kv_heads) * width,
              true};
    }
  }
  std::size_t most = 0;
  for (std::size_t at = 0; at < joins_.size(); ++at)
    if (joins_[at].is_here) most = std::max(most, block(at));
  gathered_ = backend.allocate(most * static_cast<std::size_t>(samples_ * part_.chunks));
  totals_ = buffers(backend, own_.size(), Network::kTotals * sizeof(float));
}

std::size_t ContextChunks::chunk(std::size_t own) const {
  return chunk_of_leaf(static_cast<std::size_t>(part_.first) + own, static_cast<std::size_t>(part_.chunks));
}

std::size_t ContextChunks::block(std::size_t stage) const {
  return joins_[stage].row * static_cast<std::size_t>(places_) * tensor::size_of(own_[0]->stages_[stage].format.type);
}

std::byte* ContextChunks::keys_of(std::size_t own, std::size_t stage, void* output, std::int64_t sample) const {
  const std::size_t queries =
      joins_[stage].queries * static_cast<std::size_t>(places_) * tensor::size_of(own_[0]->stages_[stage].format.type);
  const std::size_t row = queries + (chunk(own) + 1) * block(stage);
  return static_cast<std::byte*>(output) + static_cast<std::size_t>(sample) * row + queries;
}

void ContextChunks::set_exchange(Network::SumShards sum, Network::GatherChunks gather) {
  sum_ = std::move(sum);
  gather_ = std::move(gather);
}

std::size_t ContextChunks::activation_bytes() const {
  std::size_t bytes = 0;
  for (const auto& network : own_) bytes += network->activation_bytes();
  return bytes;
}

void ContextChunks::load_parameters(const float* arena) {
  for (const auto& network : own_) network->load_parameters(arena);
}

void ContextChunks::set_batch(const void* samples, const void* targets) {
  const std::int64_t all = places_ * part_.chunks;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const std::int64_t first = places_ * static_cast<std::int64_t>(chunk(i));
    const auto tokens = columns(samples, samples_, all, first, places_);
    own_[i]->set_batch(tokens.data(), columns(targets, samples_, all, first, places_).data());
  }
}

void ContextChunks::forward(kernels::Phase phase) {
  for (std::size_t at = 0; at < joins_.size(); ++at) {
    for (const auto& network : own_)
      if (network->stages_[at].done_before == kernels::Fusion::none) network->forward(network->stages_[at], phase);
    if (joins_[at].is_here) share_keys(at);
  }
}

void ContextChunks::share_keys(std::size_t stage) {
  const std::size_t bytes = block(stage), of_chunk = bytes * static_cast<std::size_t>(samples_);
  auto* const all = static_cast<std::byte*>(gathered_.data());
  const auto place = [&](std::size_t leaf, std::int64_t n) {
    return all + leaf * of_chunk + static_cast<std::size_t>(n) * bytes;
  };
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::int64_t n = 0; n < samples_; ++n)
      backend_.copy(place(static_cast<std::size_t>(part_.first) + i, n),
                    keys_of(i, stage, own_[i]->stages_[stage].data, n) + chunk(i) * bytes, bytes);
  const auto type = own_[0]->stages_[stage].format.type;
  if (gather_) gather_(type, all, of_chunk / tensor::size_of(type));
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::size_t other = 0; other < chunk(i); ++other)
      for (std::int64_t n = 0; n < samples_; ++n)
        backend_.copy(keys_of(i, stage, own_[i]->stages_[stage].data, n) + other * bytes,
                      place(leaf_of_chunk(other, static_cast<std::size_t>(part_.chunks)), n), bytes);
}

void ContextChunks::sum(const kernels::ActivationFormat& format, const Buffers& addends) {
  std::vector<void*> pointers;
  for (const auto& addend : addends) pointers.push_back(addend.data());
  if (sum_) return sum_(format, pointers);
  backend_.sum(format, pointers);
}

/// What is allocated by the first backward pass.
void ContextChunks::plan_backward() {
  std::size_t keys = 0;
  for (std::size_t at = 0; at < joins_.size(); ++at) {
    if (joins_[at].is_here) keys = std::max(keys, block(at) * static_cast<std::size_t>(samples_ * part_.chunks));
    std::size_t& count = counts_.emplace_back();
    for (const auto& tensor : own_[0]->stages_[at].tensors) count += tensor.count;
  }
  keys_ = buffers(backend_, own_.size(), keys);
  weights_ = buffers(backend_, own_.size(), *std::ranges::max_element(counts_) * sizeof(float));
  for (const auto& network : own_) network->prepare_backward(false);
}

/// A chunk's gradients of keys and values are those of all places up to its end; those of later places are 0.
void ContextChunks::sum_key_gradients(std::size_t stage) {
  const auto type = own_[0]->stages_[stage].format.type;
  const std::size_t bytes = block(stage), of_sample = bytes * static_cast<std::size_t>(part_.chunks);
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::int64_t n = 0; n < samples_; ++n) {
      auto* const to = static_cast<std::byte*>(keys_[i].data()) + static_cast<std::size_t>(n) * of_sample;
      const std::size_t seen = (chunk(i) + 1) * bytes;
      backend_.copy(to, keys_of(i, stage, own_[i]->stages_[stage].gradient, n), seen);
      backend_.clear(to + seen, of_sample - seen);
    }
  const std::int64_t values = samples_ * static_cast<std::int64_t>(of_sample / tensor::size_of(type));
  sum(kernels::dense({values}, type), keys_);
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::int64_t n = 0; n < samples_; ++n)
      backend_.copy(
          keys_of(i, stage, own_[i]->stages_[stage].gradient, n) + chunk(i) * bytes,
          static_cast<const std::byte*>(keys_[0].data()) + static_cast<std::size_t>(n) * of_sample + chunk(i) * bytes,
          bytes);
}

float* ContextChunks::sum_totals(float scale, bool with_gradients) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    Network& network = *own_[i];
    auto& last = network.stages_.back();
    network.loss_->forward_backward(last.data, network.targets_.data(), scale, with_gradients ? last.gradient : nullptr,
                                    static_cast<float*>(totals_[i].data()));
  }
  sum(kernels::dense({Network::kTotals}), totals_);
  return static_cast<float*>(totals_[0].data());
}

void ContextChunks::backward(float* gradients, float scale, const Network::Finished& finished) {
  if (keys_.empty()) plan_backward();
  std::size_t final_from = own_[0]->layout_size_;
  backend_.fill(gradients + final_from, Network::kTail, 0.0f);
  backend_.copy(gradients + final_from + Network::kLossAt, sum_totals(scale, true), totals_[0].bytes());
  if (finished) finished(final_from);
  for (std::size_t at = joins_.size(); at-- > 0;) {
    if (joins_[at].is_here) sum_key_gradients(at);
    backward_stage(at, gradients);
    const std::size_t place = own_[0]->stages_[at].final_from;
    if (finished && place < final_from) finished(final_from = place);
  }
}

void ContextChunks::backward_stage(std::size_t at, float* gradients) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    Network& network = *own_[i];
    auto& stage = network.stages_[at];
    std::array<float*, kMostTensorsOfLayer> pointers{};
    std::size_t offset = 0;
    for (std::size_t k = 0; k < stage.tensors.size(); ++k) {
      pointers[k] = static_cast<float*>(weights_[i].data()) + offset;
      offset += stage.tensors[k].count;
    }
    const auto weights = [&] {
      if (!stage.tensors.empty())
        stage.layer->backward_weights(network.input_of(stage), stage.gradient, {pointers.data(), stage.tensors.size()});
    };
    network.backward_stage(stage, std::cref(weights));
  }
  if (!own_[0]->stages_[at].tensors.empty()) sum_weights(at, gradients);
}

void ContextChunks::sum_weights(std::size_t at, float* gradients) {
  sum(kernels::dense({static_cast<std::int64_t>(counts_[at])}), weights_);
  const auto* from = static_cast<const float*>(weights_[0].data());
  for (const auto& place : own_[0]->stages_[at].tensors) {
    if (place.adds)
      backend_.add(gradients + place.offset, from, place.count);
    else
      backend_.copy(gradients + place.offset, from, place.count * sizeof(float));
    from += place.count;
  }
}

Totals ContextChunks::totals() {
  const float* const found = sum_totals(1.0f, false);
  return {found[Network::kLossAt], found[Network::kCorrectAt], found[Network::kCountAt]};
}

}  // namespace distdl::model
