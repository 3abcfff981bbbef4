// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <type_traits>
#include <utility>
#include <variant>

#include <distdl/model/row_slices.hpp>

namespace distdl::model {
namespace {
using kernels::Dropout;
using kernels::LayerSpec;
using kernels::PositionEmbedding;

constexpr std::size_t kMostParameters = 4;

/// Returns the layer for rows from `first` on of sequences of so many places.
LayerSpec slice_of(LayerSpec spec, std::int64_t first, std::int64_t places) {
  if (auto* dropout = std::get_if<Dropout>(&spec)) dropout->rows = {first, places};
  if (auto* position = std::get_if<PositionEmbedding>(&spec)) position->rows = {first, places};
  return spec;
}

const std::byte* after(const void* values, std::size_t bytes) {
  return static_cast<const std::byte*>(values) + bytes;
}
std::byte* after(void* values, std::size_t bytes) {
  return static_cast<std::byte*>(values) + bytes;
}
}  // namespace

bool is_by_rows(const LayerSpec& spec) {
  return std::visit(
      []<class Spec>(const Spec&) {
        return std::is_same_v<Spec, kernels::LayerNorm> || std::is_same_v<Spec, kernels::RmsNorm> ||
               std::is_same_v<Spec, Dropout> || std::is_same_v<Spec, PositionEmbedding>;
      },
      spec);
}

std::vector<bool> sliced_outputs(const Description& model, const Wiring& wiring) {
  std::vector<bool> sliced(model.layers.size(), false);
  if (model.rows.slices == 1) return sliced;
  for (std::size_t i = 0; i + 1 < model.layers.size(); ++i) {
    const NamedLayer& layer = model.layers[i];
    const auto& wired = wiring.layers[i];
    const bool is_sum = layer.shard && sums_outputs(layer.shard->split) && !wired.shards.empty();
    const bool is_row_layer = !layer.branch && wired.from != Wiring::kSample && is_by_rows(layer.spec);
    sliced[i] = wired.output.size() == 3 && (is_sum || is_row_layer);
  }
  return sliced;
}

RowRange rows_of(const tensor::Shape& shape, std::int64_t slices, std::int64_t first, std::int64_t count) {
  const std::int64_t width = shape.back(), rows = tensor::element_count(shape) / width;
  const std::int64_t begin = rows * first / slices, end = rows * (first + count) / slices;
  return {static_cast<std::size_t>(begin * width), static_cast<std::size_t>((end - begin) * width)};
}

std::vector<std::size_t> row_counts(const tensor::Shape& shape, std::int64_t slices) {
  std::vector<std::size_t> counts;
  for (std::int64_t slice = 0; slice < slices; ++slice) counts.push_back(rows_of(shape, slices, slice, 1).count);
  return counts;
}

bool RowSlices::weights_read_all_rows(const LayerSpec& spec) {
  return std::holds_alternative<PositionEmbedding>(spec);
}

RowSlices::RowSlices(kernels::Backend& backend, const LayerSpec& spec, const kernels::ActivationFormat& input,
                     const RowPart& part, Sum sum)
    : backend_(backend), sum_(std::move(sum)) {
  const auto width = static_cast<std::size_t>(input.shape.back()), bytes = tensor::size_of(input.type);
  const std::size_t begin = rows_of(input.shape, part.slices, part.first, part.count).first;
  for (std::int64_t i = 0; i < part.count; ++i) {
    const auto [first, count] = rows_of(input.shape, part.slices, part.first + i, 1);
    if (count == 0) continue;
    const tensor::Shape shape{static_cast<std::int64_t>(count / width), input.shape.back()};
    const auto own = slice_of(spec, static_cast<std::int64_t>(first / width), input.shape[1]);
    slices_.push_back(
        {backend.layer(own, kernels::dense(shape, input.type)), (first - begin) * bytes, static_cast<std::size_t>(i)});
  }
  output_ = kernels::dense(kernels::output_shape(spec, input.shape), input.type);
  if (weights_read_all_rows(spec)) {
    whole_ = backend.layer(spec, input);
    return;
  }
  for (const auto& parameter : kernels::parameters_of(spec, input.shape))
    counts_.push_back(static_cast<std::size_t>(tensor::element_count(parameter.shape)));
  count_ = std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
  for (std::int64_t i = 0; i < part.count && count_ > 0; ++i)
    partials_.push_back(backend.allocate(count_ * sizeof(float)));
}

void RowSlices::load_parameters(kernels::ConstPointers parameters) {
  for (const Slice& slice : slices_) slice.layer->load_parameters(parameters);
  if (whole_) whole_->load_parameters(parameters);
}

void RowSlices::forward(const void* x, void* y, kernels::Phase phase) {
  for (const Slice& slice : slices_) slice.layer->forward(after(x, slice.at), after(y, slice.at), phase);
}

void RowSlices::backward_input(const void* x, const void* y, const void* dy, void* dx) {
  for (const Slice& slice : slices_)
    slice.layer->backward_input(after(x, slice.at), after(y, slice.at), after(dy, slice.at), after(dx, slice.at));
}

void RowSlices::backward_weights(const void* x, const void* dy, kernels::Pointers gradients) {
  if (whole_) return whole_->backward_weights(x, dy, gradients);
  if (partials_.empty()) return;
  std::vector<void*> addends;
  for (const auto& partial : partials_) addends.push_back(partial.data());
  if (slices_.size() < partials_.size())  // slices without rows
    for (const auto& partial : partials_) backend_.clear(partial.data(), partial.bytes());
  for (const Slice& slice : slices_) {
    std::array<float*, kMostParameters> pointers{};
    auto* to = static_cast<float*>(addends[slice.number]);
    for (std::size_t k = 0; k < counts_.size(); to += counts_[k++]) pointers.at(k) = to;
    slice.layer->backward_weights(after(x, slice.at), after(dy, slice.at), {pointers.data(), counts_.size()});
  }
  sum_(kernels::dense({static_cast<std::int64_t>(count_)}), addends);
  const auto* from = static_cast<const float*>(addends[0]);
  for (std::size_t k = 0; k < counts_.size(); from += counts_[k++])
    backend_.copy(gradients[k], from, counts_[k] * sizeof(float));
}

}  // namespace distdl::model
