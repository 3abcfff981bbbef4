// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/model/network.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/pipeline/schedule.hpp>
#include <distdl/train/parcel.hpp>

namespace distdl::train {

/// Passes the microbatches of a step through this rank's stage of a pipeline, in the order of a schedule. Each
/// microbatch that is between its forward and its last backward has a network of its own, a slot, with the same
/// parameters.
class Pipeline {
 public:
  /// Not collective. `stages`: the layers of each rank of the pipeline; `tensors`: of this rank's; `first`: the network
  /// of the first slot. The references must outlive this object.
  Pipeline(const parallel::Mesh& mesh, const parallel::Options& options, kernels::Backend& backend,
           const model::Description& model, const std::vector<model::LayerRange>& stages,
           const model::ModelTensors& tensors, model::Network& first, int microbatches);

  /// What is done around each pass of a microbatch, which counts from 0 on each replica.
  struct Calls {
    std::function<void(model::Network& network, int microbatch)> take_batch;
    std::function<void(int microbatch)> set_key;
  };
  /// All microbatches of this replica; their gradients are added to `sum`.
  void pass(parallel::GradientSum& sum, float scale, const Calls& calls);
  /// Call it after each change of the parameters.
  void load_parameters(const float* arena);

  /// The values of parameters that another stage updates: between its update and this stage's.
  void receive_borrowed(float* parameters);
  /// The values of parameters that another stage borrows: after the update.
  void send_lent(const float* parameters);
  /// The last pass: its seconds, and those of it in which this rank did not wait for other stages.
  struct Times {
    double all = 0, busy = 0;
  };
  const Times& times() const { return times_; }

 private:
  /// A tensor that this stage and another one share.
  struct Shared {
    std::size_t offset, count;
    std::uint32_t number;                ///< of the tensor in the whole model
    Rank other;                          ///< stage, as a rank of the pipeline
    std::vector<Parcel> parcels;         ///< of gradients, used in turn
    std::vector<tensor::Buffer> copies;  ///< that are sent
  };
  struct Slot {
    model::Network* network = nullptr;
    std::unique_ptr<model::Network> own;
    Parcel forward, backward;
  };
  Slot& slot(int microbatch) { return slots_[static_cast<std::size_t>(microbatch) % slots_.size()]; }
  void find_shared(const std::vector<model::LayerRange>& stages, const model::ModelTensors& tensors);
  void forward(const parallel::pipeline::Operation& operation, const Calls& calls);
  void backward(const parallel::pipeline::Operation& operation, parallel::GradientSum& sum, float scale);
  void receive_output_gradient(Slot& own, const parallel::pipeline::Operation& operation);
  void receive_gradients(int microbatch, float* gradients);
  void send_gradients(int microbatch, const float* gradients);
  /// Counts the seconds.
  void wait(const std::function<void()>& transfer);

  kernels::Backend& backend_;
  comm::Communicator& ranks_;
  std::vector<parallel::pipeline::Operation> operations_;
  std::vector<Slot> slots_;
  std::vector<Shared> borrowed_, lent_;
  double waited_ = 0;  ///< seconds, in this pass
  Times times_;
};

}  // namespace distdl::train
