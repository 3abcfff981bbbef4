// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <variant>

#include <distdl/base/errors.hpp>
#include <distdl/model/sliced_head.hpp>

namespace distdl::model {

namespace {
/// True if the layer is a part of the same divided layer as the last one.
bool is_of_head(const Description& model, const NamedLayer& layer) {
  return layer.shard && layer.shard->of == model.layers.back().shard->of;
}
}  // namespace

std::size_t head_slices(const Description& model) {
  if (model.layers.empty()) return 0;
  const auto& last = model.layers.back().shard;
  if (!last || last->split != Split::outputs) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(model.layers, [&](const NamedLayer& layer) { return is_of_head(model, layer); }));
}

SlicedHead::SlicedHead(kernels::Backend& backend, const Description& model, const kernels::ActivationFormat& logits) {
  const auto* const loss = std::get_if<kernels::CrossEntropy>(&model.loss);
  require(loss != nullptr, "the last layer \"{}\" of model \"{}\" can be divided for a cross-entropy only",
          model.layers.back().name, model.name);
  for (const NamedLayer& layer : model.layers) {
    if (!is_of_head(model, layer)) continue;
    const auto& [first, count] = layer.shard->ranges.front();
    tensor::Shape shape = logits.shape;
    shape.back() = count;
    places_.push_back({first, layer.shard->extent, static_cast<std::int64_t>(*layer.branch), layer.shard->count});
    auto format = kernels::dense(shape, logits.type);
    format.layout = logits.layout;
    losses_.push_back(backend.sliced_loss(*loss, format, places_.back()));
  }
  const auto slices = static_cast<std::size_t>(places_.front().count);
  summaries_ = backend.allocate(slices * losses_.front()->summary_count() * sizeof(float));
}

void SlicedHead::forward_backward(std::span<const Slice> slices, const void* targets, float scale, float* totals) {
  auto* const all = static_cast<float*>(summaries_.data());
  const std::size_t count = losses_.front()->summary_count();
  for (std::size_t i = 0; i < losses_.size(); ++i)
    losses_[i]->summarize(slices[i].logits, targets, all + static_cast<std::size_t>(places_[i].number) * count);
  if (gather_) gather_(tensor::DataType::float32, all, count);
  for (std::size_t i = 0; i < losses_.size(); ++i)
    losses_[i]->forward_backward(slices[i].logits, targets, all, scale, slices[i].gradient, totals);
}

}  // namespace distdl::model
