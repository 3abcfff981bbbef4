// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/trainer/held_model.hpp>

namespace distdl::train {

std::vector<std::size_t> HeldModel::borders() const {
  std::vector<std::size_t> places;
  for (const auto& stage : stages) {
    std::size_t begin = whole.layout.size();
    for (const auto& tensor : whole.tensors)
      if (!tensor.shared && tensor.layer >= stage.first) begin = std::min(begin, tensor.view.offset);
    places.push_back(stage.first == 0 ? 0 : begin);
  }
  return places;
}

std::vector<optim::HeldElements> HeldModel::told() const {
  std::vector<optim::HeldElements> all;
  const auto& own = tensors.layout.tensors();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].role != tensor::Role::parameter || (!is_first_of_tensor && !own[i].part_of)) continue;
    const std::size_t end = i + 1 < own.size() ? own[i + 1].offset : tensors.layout.size();  // with the gap
    const std::size_t begin = whole.layout.find(own[i].name)->offset;
    const optim::Elements elements{begin, begin + end - own[i].offset};
    if (!all.empty() && all.back().elements.end == begin &&
        all.back().at + all.back().elements.count() == own[i].offset)
      all.back().elements.end = elements.end;
    else
      all.push_back({elements, own[i].offset});
  }
  return all;
}

HeldModel hold(const model::Description& divided, const parallel::Options& options, const parallel::Mesh& mesh,
               kernels::Backend& backend) {
  HeldModel held;
  held.whole = model::tensors_of(divided);
  held.model = divided;
  if (mesh.has_tensor()) {
    const auto shards = static_cast<int>(options.tensor_shards);
    const auto leaves = parallel::shards_of_ranks(shards, mesh.degrees().tensor);
    const auto [first, count] = leaves.ranges.at(static_cast<std::size_t>(mesh.tensor().rank().value));
    held.model = model::branches_of(divided, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    held.sum = std::make_unique<parallel::ShardSum>(backend, mesh.tensor(), shards);
    held.is_first_of_tensor = mesh.is_first_of_tensor();
  }
  held.stages = parallel::stages_of(held.model, mesh.degrees().pipeline, options.stage_layers);
  if (mesh.has_pipeline()) held.place = static_cast<std::size_t>(mesh.pipeline().rank().value);
  held.tensors = model::tensors_of(held.model, held.stages[held.place]);
  return held;
}

}  // namespace distdl::train
