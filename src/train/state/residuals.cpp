// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include <distdl/compression/codec.hpp>
#include <distdl/train/state/residuals.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
constexpr std::string_view kResidual = "residual/", kFactor = "factor/";
std::byte nothing;  ///< where a target without elements points

/// (ranks, shape of the tensor).
tensor::Shape shape_of_rows(const tensor::Shape& shape, std::int64_t ranks) {
  tensor::Shape all{ranks};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

tensor::Box row(const tensor::Shape& shape, std::int64_t number) {
  tensor::Box box = tensor::whole(shape);
  box.offset[0] = number;
  box.extent[0] = 1;
  return box;
}

std::byte* bytes_at(const tensor::Buffer& arena, std::size_t element) {
  return static_cast<std::byte*>(arena.data()) + element * sizeof(float);
}
}  // namespace

std::vector<checkpoint::Slice> residual_slices(const parallel::CompressionState& state, Rank rank, int ranks,
                                               const SavesTensor& saves) {
  std::vector<checkpoint::Slice> slices;
  for (const auto& view : state.tensors) {
    if (!saves(view.name)) continue;
    const auto shape = shape_of_rows(view.shape, ranks);
    slices.push_back({std::string(kResidual) + view.name, tensor::DataType::float32, shape, row(shape, rank.value),
                      bytes_at(state.residual, view.offset)});
  }
  return slices;
}

std::vector<checkpoint::Slice> factor_slices(const parallel::CompressionState& state, int index, int writers,
                                             const SavesTensor& saves) {
  std::vector<checkpoint::Slice> slices;
  const auto& views = state.factors.tensors();
  for (std::size_t i = 0; i < views.size() && index >= 0; ++i)
    if (static_cast<int>(i % static_cast<std::size_t>(writers)) == index && saves(views[i].name))
      slices.push_back({std::string(kFactor) + views[i].name, tensor::DataType::float32, views[i].shape,
                        tensor::whole(views[i].shape), bytes_at(state.right, views[i].offset)});
  return slices;
}

CompressionTargets::CompressionTargets(parallel::CompressionState& state, const tensor::ArenaLayout& layout,
                                       const tensor::ArenaLayout& whole, Rank rank, int ranks,
                                       std::span<const checkpoint::TensorEntry> found)
    : state_(state) {
  std::ranges::fill(state.residual.as<float>(), 0.0F);
  std::ranges::fill(state.right.as<float>(), 0.0F);
  std::ranges::fill(state.lacks.as<float>(), 0.0F);
  for (const auto& entry : found) {
    const std::string_view name = entry.name;
    if (name.starts_with(kResidual)) {
      const auto* const view = whole.find(name.substr(kResidual.size()));
      const auto* const own = layout.find(name.substr(kResidual.size()));
      const bool fits = view && !entry.shape.empty() && entry.shape == shape_of_rows(view->shape, entry.shape[0]);
      if (fits && state.residual.bytes() > 0) {
        own ? take_rows(*own, entry, rank, ranks) : ignore(entry);
      } else {
        drops_ = true;
        ignore(entry);
      }
    } else if (name.starts_with(kLacks)) {
      lacks_.insert(entry.name);
      if (state.lacks.bytes() > 0) continue;  // an arena like those of moments
      drops_ = true;
      ignore(entry);
    } else if (name.starts_with(kFactor)) {
      const auto* const view = state.factors.find(name.substr(kFactor.size()));
      if (view && view->shape == entry.shape)
        targets_.push_back(
            {entry.name, entry.dtype, entry.shape, tensor::whole(entry.shape), bytes_at(state.right, view->offset)});
      else
        ignore(entry);  // any factors do for a start
    }
  }
}

void CompressionTargets::take_rows(const tensor::TensorView& view, const checkpoint::TensorEntry& entry, Rank rank,
                                   int ranks) {
  std::size_t further = 0;
  if (rank.value >= std::min<std::int64_t>(entry.shape[0], ranks)) return ignore(entry);
  for (std::int64_t number = rank.value; number < entry.shape[0]; number += ranks, ++further) {
    if (further > more_.size()) more_.push_back(tensor::allocate_host(state_.residual.bytes()));
    const auto& arena = further == 0 ? state_.residual : more_[further - 1];
    targets_.push_back({entry.name, entry.dtype, entry.shape, row(entry.shape, number), bytes_at(arena, view.offset)});
  }
}

void CompressionTargets::ignore(const checkpoint::TensorEntry& entry) {
  tensor::Box none = tensor::whole(entry.shape);
  std::ranges::fill(none.extent, 0);
  targets_.push_back({entry.name, entry.dtype, entry.shape, none, &nothing});
}

void CompressionTargets::leave_out_unsaved(std::vector<checkpoint::Target>& all) const {
  std::erase_if(all, [&](const checkpoint::Target& target) {
    return target.name.starts_with(kLacks) && !lacks_.contains(target.name);
  });
}

void CompressionTargets::finish() {
  for (const auto& arena : more_) compression::add(state_.residual.as<float>(), arena.as<float>());
  more_.clear();
}

}  // namespace distdl::train
