// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/model/tensor_shards.hpp>
#include <distdl/train/trainer/tensor_group.hpp>

namespace distdl::train {
namespace {
/// The tensors whose squares an optimizer sums.
std::vector<tensor::TensorView> parameters_of(const model::ModelTensors& tensors) {
  auto views = tensors.layout.tensors();
  std::erase_if(views, [](const auto& view) { return view.role != tensor::Role::parameter; });
  return views;
}
}  // namespace

model::Description part_of(const model::Description& divided, const parallel::Mesh& mesh, std::int64_t shards) {
  if (!mesh.has_tensor()) return divided;
  const auto leaves = parallel::shards_of_ranks(static_cast<int>(shards), mesh.degrees().tensor);
  const auto [first, count] = leaves.ranges.at(static_cast<std::size_t>(mesh.tensor().rank().value));
  return model::branches_of(divided, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

TensorGroup::TensorGroup(kernels::Backend& backend, comm::Communicator& group, std::int64_t shards,
                         const model::Description& divided, const model::ModelTensors& own)
    : group_(group), sum_(backend, group, static_cast<int>(shards)), whole_(model::tensors_of(divided)) {
  const auto all = parameters_of(whole_);
  for (const auto& view : parameters_of(own)) {
    const auto found = std::ranges::find(all, view.name, &tensor::TensorView::name);
    places_.emplace_back();
    if (view.part_of || is_first()) places_.back() = static_cast<std::size_t>(found - all.begin());
  }
  squares_.resize(all.size());
}

double TensorGroup::sum_of_squares(std::span<const double> own) {
  std::ranges::fill(squares_, 0.0);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (places_[i]) squares_[*places_[i]] = own[i];
  group_.all_reduce(comm::Vector(squares_)).wait();  // one addend of each sum is not 0
  return std::accumulate(squares_.begin(), squares_.end(), 0.0);
}

bool TensorGroup::one_has(bool flag) {
  float sum = flag ? 1 : 0;
  group_.all_reduce(comm::Vector(&sum, 1, comm::DataType::float32)).wait();
  return sum > 0;
}

}  // namespace distdl::train
