// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/ranks/owned_model.hpp>

namespace distdl::train {

parallel::GradientSum::Pieces OwnedModel::pieces(std::size_t count) const {
  parallel::GradientSum::Pieces pieces;
  const auto& own = tensors.layout.tensors();
  for (const auto& part : parts) {
    auto& elements = pieces.emplace_back();
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto is_own = [&](const model::ModelTensor& tensor) { return tensor.view.offset == own[i].offset; };
      if (std::ranges::none_of(part.tensors, is_own)) continue;
      const std::size_t end = i + 1 < own.size() ? own[i + 1].offset : tensors.layout.size();  // with the gap
      if (!elements.empty() && elements.back().end == own[i].offset)
        elements.back().end = end;
      else
        elements.push_back({own[i].offset, end});
    }
    if (part.has_totals) elements.push_back({tensors.layout.size(), count});
  }
  return pieces;
}

std::vector<parallel::OwnedElements> OwnedModel::reported_elements() const {
  std::vector<parallel::OwnedElements> all;
  const auto& own = tensors.layout.tensors();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].role != tensor::Role::parameter || !(own[i].part_of ? tells_parts : tells_whole_tensors)) continue;
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

namespace {
model::Network::SumShards adder(parallel::ShardSum& sum) {
  return [&sum](const auto& format, auto addends) { sum(format, addends); };
}
}  // namespace

void OwnedModel::connect(model::Network& network) const {
  if (shard_sum) network.set_exchange_of_shards(shard_exchange);
  if (chunk_sum) network.set_exchange_of_chunks(adder(*chunk_sum), gather_chunks);
}

namespace {
/// Among the ranks of `group`.
model::Network::Gather gather_among(comm::Communicator& group, int leaves) {
  return [&group, leaves](tensor::DataType type, void* all, std::size_t values) {
    parallel::gather_shards(group, leaves, type, all, values);
  };
}

void share_shards(OwnedModel& held, const parallel::Options& options, const parallel::Mesh& mesh,
                  kernels::Backend& backend) {
  const auto shards = static_cast<int>(options.tensor_shards);
  const auto leaves = parallel::shards_of_ranks(shards, mesh.degrees().tensor);
  const auto [first, count] = leaves.ranges.at(static_cast<std::size_t>(mesh.tensor().rank().value));
  held.model = model::branches_of(held.model, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  held.shard_sum = std::make_unique<parallel::ShardSum>(backend, mesh.tensor(), shards);
  held.shard_exchange = {adder(*held.shard_sum), gather_among(mesh.tensor(), shards),
                         [&sum = *held.shard_sum](const auto& format, auto addends, void* rows, auto counts) {
                           sum.to_slices(format, addends, rows, counts);
                         },
                         [&group = mesh.tensor()](tensor::DataType type, const void* rows, void* all, auto counts) {
                           parallel::gather_shards(group, type, rows, all, counts);
                         }};
}

void share_context(OwnedModel& held, const parallel::Mesh& mesh, kernels::Backend& backend) {
  const auto chunks = static_cast<int>(held.model.context.chunks);
  const auto leaves = parallel::shards_of_ranks(chunks, mesh.degrees().context);
  const auto [first, count] = leaves.ranges.at(static_cast<std::size_t>(mesh.context().rank().value));
  held.model.context = {chunks, first, count};
  held.chunk_sum = std::make_unique<parallel::ShardSum>(backend, mesh.context(), chunks);
  held.gather_chunks = gather_among(mesh.context(), chunks);
}
}  // namespace

OwnedModel hold(const model::Description& divided, const parallel::Options& options, const parallel::Mesh& mesh,
                kernels::Backend& backend, std::span<const double> stage_costs) {
  OwnedModel held;
  held.whole = model::tensors_of(divided);
  held.model = divided;
  held.model.context = {options.context_chunks, 0, options.context_chunks};
  held.tells_whole_tensors = mesh.is_first_of_group();
  held.tells_parts = mesh.is_first_of_context();
  if (mesh.has_context()) share_context(held, mesh, backend);
  if (mesh.has_tensor()) share_shards(held, options, mesh, backend);
  const int ranks = mesh.degrees().pipeline, rank = mesh.has_pipeline() ? mesh.pipeline().rank().value : 0;
  held.stages = parallel::stages_of(divided, held.model, ranks * parallel::stages_per_rank(options, ranks),
                                    options.stage_layers, stage_costs);
  held.parts = model::tensors_of(held.model, parallel::stages_of_rank(held.stages, rank, ranks));
  held.tensors = held.parts.front();
  for (std::size_t i = 1; i < held.parts.size(); ++i)
    held.tensors.tensors.insert(held.tensors.tensors.end(), held.parts[i].tensors.begin(), held.parts[i].tensors.end());
  return held;
}

}  // namespace distdl::train
