// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <distdl/model/network.hpp>
#include <distdl/model/stage_execution.hpp>

namespace distdl::model {

/// The chunks of a model's sequences that a rank has, see Description::context. They pass the layers together: before a
/// layer attends, all chunks get the keys and values of all chunks. In the backward pass, each chunk's gradients of
/// keys and values are summed over the chunks that have read them. All sums over chunks follow the sum tree, with a
/// chunk for a leaf, in the order of leaf_of_chunk(). For backends whose memory the host can address.
///
/// The functions do what those of Network with the same names do.
class ContextChunks {
 public:
  /// Throws ConfigError. The references must outlive this object.
  ContextChunks(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
                bool recomputes);
  void set_exchange_of_shards(const Exchange& exchange);
  void set_exchange(SumShards sum, Gather gather);
  std::size_t activation_bytes() const;
  std::size_t workspace_bytes() const;
  double repeated_flops() const;
  /// The plan of the first chunk here. Those of the others differ in the shapes of keys and values.
  const StagePlan& plan() const { return own_.front()->plan(); }
  void set_before_reads(Network::BeforeReads before) { before_reads_ = std::move(before); }
  void load_parameters(const float* arena);
  void set_batch(const void* samples, const void* targets);
  /// Activations of all chunks, one after the other.
  Network::Activation input() const { return input_.as<std::byte>(); }
  Network::Activation input_gradient() const { return input_gradient_.as<std::byte>(); }
  Network::Activation output() const { return output_.as<std::byte>(); }
  Network::Activation output_gradient() const { return output_gradient_.as<std::byte>(); }
  void prepare_backward(bool in_pieces);
  void forward(kernels::Phase phase);
  void backward(float* gradients, float scale, const Network::Finished& finished);
  void backward_input(float scale);
  void backward_weights(float* gradients);
  Totals totals();

 private:
  using Buffers = std::vector<tensor::Buffer>;
  /// The output of a stage, or its gradient.
  using Memory = void* (StageExecution::*)(std::size_t stage) const;
  std::size_t chunk(std::size_t own) const;
  void find_joins(const Description& own, const LayerRange& layers);
  /// Copies the outputs of this layer, or their gradients, to and from memory with all chunks.
  void collect(std::size_t stage, Memory memory, const tensor::Buffer& to) const;
  void distribute(const tensor::Buffer& from, std::size_t stage, Memory memory) const;
  /// Calls the caller's function before the parameters of this layer are read.
  void before_reads(bool backward, std::size_t stage);
  /// Sets the first of these addends, those of the own chunks, to the sum over all chunks.
  void sum(const kernels::ActivationFormat& format, const Buffers& addends);
  float* sum_totals(float scale, bool with_gradients);
  void share_keys(std::size_t stage);
  void sum_key_gradients(std::size_t stage);
  /// Computes the block again that ends with this stage.
  void recompute_before(std::size_t stage);
  void begin_backward(float scale);
  void write_tail(float* gradients) const;
  void backward_stage(std::size_t at, float* gradients);
  /// Computes the gradients of a layer's weights for an own chunk.
  void compute_weights(std::size_t own, std::size_t at);
  void sum_weights(std::size_t at, float* gradients);
  /// Returns where the keys and values of all places of a sample begin, in an output of this layer.
  std::byte* keys_of(std::size_t own, std::size_t stage, void* output, std::int64_t sample) const;
  /// Returns the bytes of the keys and values of one sample in one chunk.
  std::size_t block(std::size_t stage) const;

  kernels::Backend& backend_;
  std::int64_t samples_, places_;  ///< places: number per chunk
  ContextPart part_;
  std::vector<std::unique_ptr<StageExecution>> own_;  ///< in the order of the leaves
  struct Join {
    std::size_t queries = 0, row = 0;  ///< values of a place: of queries, of keys and values
    bool is_here = false;
  };
  std::vector<Join> joins_;          ///< for each layer here
  tensor::Buffer gathered_;          ///< keys and values: of each chunk, in the order of the leaves, and each sample
  Buffers keys_, weights_, totals_;  ///< addends of gradients, for each own chunk
  std::vector<std::size_t> counts_;  ///< number of weights of each layer
  tensor::Buffer input_, output_, input_gradient_, output_gradient_;  ///< none where the model begins, or ends
  SumShards sum_;
  Gather gather_;
  Network::BeforeReads before_reads_;
  bool has_totals_;  ///< see ModelTensors
};

}  // namespace distdl::model
