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

/// Returns `count` numbers from `first` on of each of `samples` rows of `all` numbers.
std::vector<std::int32_t> columns(const void* numbers, std::int64_t samples, std::int64_t all, std::int64_t first,
                                  std::int64_t count) {
  std::vector<std::int32_t> some;
  const auto* const from = static_cast<const std::int32_t*>(numbers);
  for (std::int64_t n = 0; n < samples; ++n)
    some.insert(some.end(), from + n * all + first, from + n * all + first + count);
  return some;
}
}  // namespace

ContextChunks::ContextChunks(kernels::Backend& backend, const Description& model, const ModelTensors& tensors,
                             std::int64_t samples, bool recomputes)
    : backend_(backend),
      samples_(samples),
      places_(model.sample[0] / model.context.chunks),
      part_(model.context),
      has_totals_(tensors.has_totals) {
  const ModelTensors own_tensors = tensors_of_chunk(model, tensors);
  // All ranks that have chunks of a sequence repeat the same layers together.
  const auto sizes =
      estimated_activations(chunk_of(model, part_.chunks - 1, part_.chunks), samples, backend.activation_type());
  for (std::size_t i = 0; i < static_cast<std::size_t>(part_.count); ++i) {
    const Description own = chunk_of(model, static_cast<std::int64_t>(chunk(i)), part_.chunks);
    own_.push_back(std::make_unique<StageExecution>(backend, own, own_tensors, samples, recomputes, sizes));
    if (i == 0)
      find_joins(own, own_tensors.layers);
    else
      own_[i]->share_parameters(*own_[0]);
  }
  std::size_t most = 0;
  for (std::size_t at = 0; at < joins_.size(); ++at)
    if (joins_[at].is_here) most = std::max(most, block(at));
  gathered_ = backend.allocate(most * static_cast<std::size_t>(samples_ * part_.chunks));
  totals_ = buffers(backend, own_.size(), Network::kTotals * sizeof(float));
  if (!plan().reads_samples()) input_ = backend.allocate(own_.size() * plan().stages.front().held_bytes());
  if (!plan().has_loss) output_ = backend.allocate(own_.size() * plan().stages.back().held_bytes());
}

void ContextChunks::find_joins(const Description& own, const LayerRange& layers) {
  const Wiring wiring = wire(own, samples_);
  joins_.resize(plan().stages.size());
  const std::size_t before = layers.end - joins_.size();  // layers that are no stages
  for (std::size_t at = 0; at < joins_.size(); ++at) {
    const auto* spec = std::get_if<kernels::JoinContext>(&own.layers[before + at].spec);
    if (spec == nullptr) continue;
    const auto width =
        static_cast<std::size_t>(wiring.layers[before + at].input[2] / (spec->heads + 2 * spec->kv_heads));
    joins_[at] = {static_cast<std::size_t>(spec->heads) * width, 2 * static_cast<std::size_t>(spec->kv_heads) * width,
                  true};
  }
}

std::size_t ContextChunks::chunk(std::size_t own) const {
  return chunk_of_leaf(static_cast<std::size_t>(part_.first) + own, static_cast<std::size_t>(part_.chunks));
}

std::size_t ContextChunks::block(std::size_t stage) const {
  return joins_[stage].row * static_cast<std::size_t>(places_) * tensor::size_of(plan().stages[stage].format.type);
}

std::byte* ContextChunks::keys_of(std::size_t own, std::size_t stage, void* output, std::int64_t sample) const {
  const std::size_t queries =
      joins_[stage].queries * static_cast<std::size_t>(places_) * tensor::size_of(plan().stages[stage].format.type);
  const std::size_t row = queries + (chunk(own) + 1) * block(stage);
  return static_cast<std::byte*>(output) + static_cast<std::size_t>(sample) * row + queries;
}

void ContextChunks::set_exchange_of_shards(const Exchange& exchange) {
  for (const auto& stages : own_) stages->set_exchange(exchange);
}

void ContextChunks::set_exchange(SumShards sum, Gather gather) {
  sum_ = std::move(sum);
  gather_ = std::move(gather);
}

std::size_t ContextChunks::activation_bytes() const {
  std::size_t bytes = 0;
  for (const auto& stages : own_) bytes += stages->plan().activation_bytes;
  return bytes;
}

std::size_t ContextChunks::workspace_bytes() const {
  std::size_t bytes = 0;
  for (const auto& stages : own_) bytes += stages->workspace_bytes();
  for (const auto* buffers : {&keys_, &weights_, &totals_})
    for (const auto& buffer : *buffers) bytes += buffer.bytes();
  for (const auto* buffer : {&gathered_, &input_, &output_, &input_gradient_, &output_gradient_})
    bytes += buffer->bytes();
  return bytes;
}

double ContextChunks::repeated_flops() const {
  double flops = 0;
  for (const auto& stages : own_) flops += stages->plan().repeated_flops();
  return flops;
}

void ContextChunks::load_parameters(const float* arena) {
  for (const auto& stages : own_) {
    stages->set_parameters(arena);
    if (!before_reads_) stages->load_parameters();
  }
}

void ContextChunks::before_reads(bool backward, std::size_t stage) {
  if (!before_reads_) return;
  before_reads_(backward, stage);
  if (backward) return;
  for (const auto& stages : own_) stages->load_parameters(stage);
}

void ContextChunks::set_batch(const void* samples, const void* targets) {
  const std::int64_t all = places_ * part_.chunks;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const std::int64_t first = places_ * static_cast<std::int64_t>(chunk(i));
    const auto tokens = columns(samples, samples_, all, first, places_);
    own_[i]->set_batch(tokens.data(), columns(targets, samples_, all, first, places_).data());
  }
}

void ContextChunks::collect(std::size_t stage, Memory memory, const tensor::Buffer& to) const {
  const std::size_t bytes = to.bytes() / own_.size();
  for (std::size_t i = 0; i < own_.size(); ++i)
    backend_.copy(static_cast<std::byte*>(to.data()) + i * bytes, (own_[i].get()->*memory)(stage), bytes);
}

void ContextChunks::distribute(const tensor::Buffer& from, std::size_t stage, Memory memory) const {
  const std::size_t bytes = from.bytes() / own_.size();
  for (std::size_t i = 0; i < own_.size(); ++i)
    backend_.copy((own_[i].get()->*memory)(stage), static_cast<const std::byte*>(from.data()) + i * bytes, bytes);
}

void ContextChunks::forward(kernels::Phase phase) {
  if (!plan().reads_samples()) distribute(input_, 0, &StageExecution::output);
  for (const auto& stages : own_) stages->begin_forward();
  for (std::size_t at = plan().reads_samples() ? 0 : 1; at < joins_.size(); ++at) {
    if (plan().stages[at].done_before == kernels::Fusion::none) {
      before_reads(false, at);
      for (const auto& stages : own_) stages->forward(at, phase);
    }
    if (joins_[at].is_here) share_keys(at);
  }
  if (!plan().has_loss) collect(joins_.size() - 1, &StageExecution::output, output_);
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
                    keys_of(i, stage, own_[i]->output(stage), n) + chunk(i) * bytes, bytes);
  const auto type = plan().stages[stage].format.type;
  if (gather_) gather_(type, all, of_chunk / tensor::size_of(type));
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::size_t other = 0; other < chunk(i); ++other)
      for (std::int64_t n = 0; n < samples_; ++n)
        backend_.copy(keys_of(i, stage, own_[i]->output(stage), n) + other * bytes,
                      place(leaf_of_chunk(other, static_cast<std::size_t>(part_.chunks)), n), bytes);
}

void ContextChunks::sum(const kernels::ActivationFormat& format, const Buffers& addends) {
  std::vector<void*> pointers;
  for (const auto& addend : addends) pointers.push_back(addend.data());
  if (sum_) return sum_(format, pointers);
  backend_.sum(format, pointers);
}

void ContextChunks::prepare_backward(bool in_pieces) {
  std::size_t keys = 0;
  for (std::size_t at = 0; at < joins_.size(); ++at) {
    if (joins_[at].is_here) keys = std::max(keys, block(at) * static_cast<std::size_t>(samples_ * part_.chunks));
    std::size_t& count = counts_.emplace_back();
    for (const auto& tensor : plan().stages[at].tensors) count += tensor.count;
  }
  keys_ = buffers(backend_, own_.size(), keys);
  weights_ = buffers(backend_, own_.size(), *std::ranges::max_element(counts_) * sizeof(float));
  for (const auto& stages : own_) stages->prepare_backward(in_pieces);
  if (input_.bytes() > 0) input_gradient_ = backend_.allocate(input_.bytes());
  if (output_.bytes() > 0) output_gradient_ = backend_.allocate(output_.bytes());
}

/// A chunk's gradients of keys and values are those of all places up to its end; those of later places are 0.
void ContextChunks::sum_key_gradients(std::size_t stage) {
  const auto type = plan().stages[stage].format.type;
  const std::size_t bytes = block(stage), of_sample = bytes * static_cast<std::size_t>(part_.chunks);
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::int64_t n = 0; n < samples_; ++n) {
      auto* const to = static_cast<std::byte*>(keys_[i].data()) + static_cast<std::size_t>(n) * of_sample;
      const std::size_t seen = (chunk(i) + 1) * bytes;
      backend_.copy(to, keys_of(i, stage, own_[i]->gradient(stage), n), seen);
      backend_.clear(to + seen, of_sample - seen);
    }
  const std::int64_t values = samples_ * static_cast<std::int64_t>(of_sample / tensor::size_of(type));
  sum(kernels::dense({values}, type), keys_);
  for (std::size_t i = 0; i < own_.size(); ++i)
    for (std::int64_t n = 0; n < samples_; ++n)
      backend_.copy(
          keys_of(i, stage, own_[i]->gradient(stage), n) + chunk(i) * bytes,
          static_cast<const std::byte*>(keys_[0].data()) + static_cast<std::size_t>(n) * of_sample + chunk(i) * bytes,
          bytes);
}

float* ContextChunks::sum_totals(float scale, bool with_gradients) {
  for (std::size_t i = 0; i < own_.size(); ++i)
    own_[i]->compute_loss(scale, static_cast<float*>(totals_[i].data()), with_gradients);
  sum(kernels::dense({Network::kTotals}), totals_);
  return static_cast<float*>(totals_[0].data());
}

/// As Network does, with the keys and values of all chunks.
void ContextChunks::recompute_before(std::size_t stage) {
  for (auto [at, end] = plan().block_before(stage); at < end; ++at) {
    for (const auto& stages : own_)
      if (stages->plan().is_repeated(at, stage)) stages->forward(at, kernels::Phase::training);
    if (joins_[at].is_here) share_keys(at);
  }
}

/// The totals, or what the part after this one has computed.
void ContextChunks::begin_backward(float scale) {
  if (plan().has_loss)
    sum_totals(scale, true);
  else
    distribute(output_gradient_, joins_.size() - 1, &StageExecution::gradient);
}

void ContextChunks::write_tail(float* gradients) const {
  float* const tail = gradients + plan().layout_size;
  if (has_totals_) backend_.fill(tail, Network::kTail, 0.0f);
  if (plan().has_loss) backend_.copy(tail + Network::kLossAt, totals_[0].data(), totals_[0].bytes());
}

void ContextChunks::backward(float* gradients, float scale, const Network::Finished& finished) {
  if (keys_.empty()) prepare_backward(false);
  begin_backward(scale);
  write_tail(gradients);
  std::size_t final_from = plan().layout_size;
  if (finished) finished(final_from);
  for (std::size_t at = joins_.size(); at-- > 0;) {
    before_reads(true, at);
    recompute_before(at);
    if (joins_[at].is_here) sum_key_gradients(at);
    backward_stage(at, gradients);
    const std::size_t place = plan().stages[at].final_from;
    if (finished && place < final_from) finished(final_from = place);
  }
  if (!plan().reads_samples()) collect(0, &StageExecution::gradient, input_gradient_);
}

void ContextChunks::backward_input(float scale) {
  begin_backward(scale);
  for (std::size_t at = joins_.size(); at-- > 0;) {
    before_reads(true, at);
    if (joins_[at].is_here) sum_key_gradients(at);
    for (const auto& stages : own_) stages->begin_backward(at, [] {});
    for (const auto& stages : own_) stages->end_backward(at, [] {});
  }
  if (!plan().reads_samples()) collect(0, &StageExecution::gradient, input_gradient_);
}

void ContextChunks::backward_weights(float* gradients) {
  write_tail(gradients);
  for (std::size_t at = joins_.size(); at-- > 0;) {
    before_reads(true, at);
    for (std::size_t i = 0; i < own_.size(); ++i) compute_weights(i, at);
    sum_weights(at, gradients);
  }
}

void ContextChunks::backward_stage(std::size_t at, float* gradients) {
  for (const auto half : {&StageExecution::begin_backward, &StageExecution::end_backward})
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const auto weights = [&] { compute_weights(i, at); };
      (*own_[i].*half)(at, std::cref(weights));  // for which a std::function has room
    }
  sum_weights(at, gradients);
}

void ContextChunks::compute_weights(std::size_t own, std::size_t at) {
  const auto& tensors = plan().stages[at].tensors;
  if (tensors.empty()) return;
  std::array<float*, kMostTensorsOfLayer> pointers{};
  auto* to = static_cast<float*>(weights_[own].data());
  for (std::size_t k = 0; k < tensors.size(); to += tensors[k++].count) pointers[k] = to;
  own_[own]->compute_weights(at, {pointers.data(), tensors.size()});
}

void ContextChunks::sum_weights(std::size_t at, float* gradients) {
  if (counts_[at] == 0) return;
  sum(kernels::dense({static_cast<std::int64_t>(counts_[at])}), weights_);
  const auto* from = static_cast<const float*>(weights_[0].data());
  for (const auto& place : plan().stages[at].tensors) {
    if (place.adds)
      backend_.add(gradients + place.offset, from, place.count);
    else
      backend_.copy(gradients + place.offset, from, place.count * sizeof(float));
    from += place.count;
  }
}

Totals ContextChunks::totals() {
  std::array<float, Network::kTotals> found{};
  backend_.copy_to_host(found.data(), sum_totals(1.0f, false), sizeof found);
  return {found[Network::kLossAt], found[Network::kCorrectAt], found[Network::kCountAt]};
}

}  // namespace distdl::model
