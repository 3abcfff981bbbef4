// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/shard_sum.hpp>

namespace distdl::train {

/// What a rank has of a divided model: all, or some branches where several ranks share them.
model::Description part_of(const model::Description& divided, const parallel::Mesh& mesh, std::int64_t shards);

/// What the ranks that share the tensor shards of a model do together. Between two calls they compute the same.
class TensorGroup {
 public:
  /// `divided`: the whole model; `own`: the tensors of part_of() it. `group` must outlive this object.
  TensorGroup(kernels::Backend& backend, comm::Communicator& group, std::int64_t shards,
              const model::Description& divided, const model::ModelTensors& own);
  bool is_first() const { return group_.rank() == Rank(0); }
  /// Collective. See model::Network::set_sum_of_shards().
  void sum_shards(const kernels::ActivationFormat& format, std::span<void* const> addends) { sum_(format, addends); }
  /// Collective. See optim::Optimizer::set_sum_of_squares().
  double sum_of_squares(std::span<const double> own);
  /// Collective. Whether it is true on one of the ranks.
  bool one_has(bool flag);
  const model::ModelTensors& whole() const { return whole_; }

 private:
  comm::Communicator& group_;
  parallel::ShardSum sum_;
  model::ModelTensors whole_;
  std::vector<std::optional<std::size_t>> places_;  ///< of each own tensor, unless another rank tells its sum
  std::vector<double> squares_;                     ///< of each tensor of the whole model
};

}  // namespace distdl::train
