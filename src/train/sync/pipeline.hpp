// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/model/network.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/pipeline/schedule.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>
#include <distdl/train/ranks/stage_message.hpp>

namespace distdl::train {

/// Passes the microbatches of a step through this rank's stages of a pipeline, in the order of a schedule. In each
/// stage, a microbatch that is between its forward and its last backward has a network of its own, a slot, with the
/// same parameters.
class Pipeline {
 public:
  /// Not collective. `first`: the network of the first slot of the first stage here. `microbatches`: number of
  /// microbatches in a step; with use(), that of the replica that has most. The references must outlive this object.
  Pipeline(const parallel::Mesh& mesh, const parallel::Options& options, kernels::Backend& backend,
           const OwnedModel& held, model::Network& first, int microbatches);
  /// The networks of the stages here, one of each.
  std::vector<model::Network*> networks() const;
  /// Collective, once, before the first pass. Allocates shared memory for messages between ranks of one node.
  void allocate();

  /// Functions that are called around each pass of a microbatch. Microbatches count from 0 on each replica.
  struct Calls {
    std::function<void(model::Network& network, int microbatch)> take_batch;
    std::function<void(int microbatch)> set_key;
    /// Called when the gradients of this rank's `part`-th stage are computed, before they are summed.
    std::function<void(int microbatch, std::size_t part, float* gradients)> computed;
  };
  /// The parameters are gathered for each pass of a microbatch, and before others borrow them. Of the microbatches that
  /// this replica does not have, it joins the gathers.
  void use(ParameterBlocks& blocks);
  /// All `microbatches` of this replica; their gradients are added to `sum`.
  void pass(parallel::GradientSum& sum, float scale, int microbatches, const Calls& calls);
  /// One microbatch again, by all ranks of the pipeline. Its gradients are written to `gradients`, and not summed.
  void repeat(int microbatch, float* gradients, float scale, const Calls& calls);
  /// Call it after each change of the parameters.
  void load_parameters(const float* arena);

  /// Receives the values of parameters that another stage updates. Call it between that update and this stage's.
  void receive_borrowed(float* parameters);
  /// Sends the values of parameters that another stage borrows. Call it after the update.
  void send_lent(const float* parameters);
  /// Seconds of the last pass, and those of them in which this rank did not wait for other stages.
  struct Times {
    double all = 0, busy = 0;
  };
  const Times& times() const { return times_; }

 private:
  /// A tensor that a stage here and one on another rank share.
  struct Shared {
    std::size_t part;  ///< number of the stage here
    std::size_t offset, count;
    std::uint32_t number;                ///< number of the tensor in the whole model
    Rank other;                          ///< the other rank of the pipeline
    std::vector<StageMessage> messages;  ///< messages with gradients, used in turn
    std::vector<tensor::Buffer> copies;  ///< copies of gradients that are sent
  };
  struct Slot {
    model::Network* network = nullptr;
    std::unique_ptr<model::Network> own;
    StageMessage forward, backward;
  };
  std::size_t part_of(const parallel::pipeline::Operation& operation) const;
  Slot& slot(const parallel::pipeline::Operation& operation);
  void add_slots(std::size_t part, std::size_t count, const OwnedModel& held, model::Network& first, bool in_pieces);
  void find_shared(std::size_t part, const OwnedModel& held);
  /// Calls visit(message, bytes) for each message of the passes, with the most that it sends.
  template <class Visitor>
  void for_each_message(Visitor&& visit);
  void forward(const parallel::pipeline::Operation& operation, const Calls& calls);
  void backward(const parallel::pipeline::Operation& operation, float* gradients, float scale);
  /// Functions of a pass for the gradients of each stage here: their memory, and a call when they are computed.
  struct Gradients {
    std::function<float*(std::size_t part)> memory;
    std::function<void(const parallel::pipeline::Operation& operation, float* gradients)> computed;
  };
  void run(const std::vector<parallel::pipeline::Operation>& operations, int microbatches, const Gradients& gradients,
           float scale, const Calls& calls);
  void compute(const parallel::pipeline::Operation& operation, const Gradients& gradients, float scale,
               const Calls& calls);
  void send(StageMessage& message, std::span<const std::byte> values, const parallel::pipeline::Operation& operation);
  void receive_output_gradient(Slot& own, const parallel::pipeline::Operation& operation);
  void receive_gradients(const parallel::pipeline::Operation& operation, float* gradients);
  void send_gradients(const parallel::pipeline::Operation& operation, const float* gradients);
  /// Calls transfer() and adds its seconds to waited_.
  void wait(const std::function<void()>& transfer);

  kernels::Backend& backend_;
  comm::Communicator& ranks_;
  std::vector<parallel::pipeline::Operation> operations_, repeated_;  ///< repeated_: operations of one microbatch
  tensor::Buffer room_;                   ///< shared memory for messages; none: they are sent
  std::vector<std::vector<Slot>> slots_;  ///< slots of each stage here
  std::vector<Shared> borrowed_, lent_;
  ParameterBlocks* blocks_ = nullptr;  ///< none: all parameters of the stages are here
  double waited_ = 0;                  ///< seconds, in this pass
  Times times_;
};

}  // namespace distdl::train
