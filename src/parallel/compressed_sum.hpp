// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/compression/codec.hpp>
#include <distdl/compression/low_rank.hpp>
#include <distdl/parallel/buckets.hpp>
#include <distdl/parallel/coded_units.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/tensor/arena.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel {

/// State that a rank's compression of gradients keeps from step to step. A part of the training state.
struct CompressionState {
  /// An arena of floats in host memory: for each gradient, the remainder that this rank has not passed on yet. Summed
  /// over the ranks, it is what the sums of all steps lack so far.
  tensor::Buffer residual;
  std::vector<tensor::TensorView> tensors = {};  ///< tensors that have residuals; the arena is zero elsewhere
  tensor::ArenaLayout factors = {};              ///< with factors, the right one of each matrix: (rank, columns)
  tensor::Buffer right = {};                     ///< an arena of right factors in host memory, equal on all ranks
  /// Floats in host memory: for each element of this rank's shard, what the parameters lack that all ranks have. Empty:
  /// nothing, because parameters are gathered as they are.
  tensor::Buffer lacks = {};
  int holders = 0;  ///< only the first so many ranks have residuals; 0: all ranks
};

/// AdamW's moments before a step, arenas with the layout of the gradients, equal on all ranks.
struct Moments {
  const float* first = nullptr;
  const float* second = nullptr;
  float beta1 = 0;
};

/// The state of this compression, all zeros. Empty buffers with Compression::none.
CompressionState make_compression_state(const Options& options, const tensor::ArenaLayout& layout);

/// Sums buckets of gradients over the ranks in fewer bytes, with error feedback: each rank adds its residual to its
/// contribution, and keeps what the code of that lacks (Karimireddy et al., ICML 2019).
///
/// Tensors are divided into units of up to compression::kMostElements, which belong to the ranks in turn. Each rank
/// sends the code of each unit to its owner. The owner adds the decoded values in the order of ranks, and sends a code
/// of the sum to all; what that lacks becomes the owner's residual. Where an encoding makes factors, matrices are
/// summed as these. Tensors that are short, and values other than gradients, are sent as they are.
///
/// With code_moments(), the coded value is not the gradient g but the first moment that the step makes of it. Its unit
/// is the root of the second moment: (beta1 * first + (1 - beta1) * g) / sqrt(second). All ranks have its first term.
/// The part of a gradient that the sum lacks then changes a step as little as the first moment does. It is as small as
/// the element's gradients are (Tang et al., "1-bit Adam", ICML 2021, who do not divide).
///
/// The bits follow from the contributions, the residuals and the number of ranks, not from the buckets. Nor do they
/// depend on which tensors of a model this object sums: the owners of a tensor's units follow from the whole model.
class CompressedSum {
 public:
  /// `layout`: layout of the gradients. `whole`: layout of the whole model, with tensors of the same names. The
  /// references must outlive this object, and so must the state.
  CompressedSum(comm::Communicator& communicator, Options options, const tensor::ArenaLayout& layout,
                const tensor::ArenaLayout& whole, std::span<const Bucket> buckets);
  CompressedSum(comm::Communicator& communicator, Options options, const tensor::ArenaLayout& layout,
                std::span<const Bucket> buckets)
      : CompressedSum(communicator, std::move(options), layout, layout, buckets) {}
  void set_state(CompressionState& state) { state_ = &state; }
  /// Call between two steps. Compresses so from now on; residuals, if any, are in the state. Options with
  /// Compression::automatic begin with none.
  void use(Compression compression);
  /// Call between two steps, with the same on all ranks. Codes gradients by these moments from now on, or as they are.
  /// Codec formats only.
  void code_moments(std::optional<Moments> moments) { moments_ = moments; }
  /// Call between two steps. The contributions and the sum have this factor from now on, a power of two; residuals have
  /// none.
  void set_scale(double scale) { scale_ = static_cast<float>(scale); }
  Compression in_use() const { return options_.compression.encoding; }
  /// True if any rank may have residuals; the same on all ranks.
  bool has_residuals() const { return has_residuals_; }
  /// Returns the seconds that encoding and decoding take in a step, as measured here with a part of it.
  double measure_codec() const { return parallel::measure_codec(codec_, layout_.size()); }
  /// First element of an arena that this object does not sum.
  std::size_t end() const { return layout_.size(); }
  /// Collective. Sums `partials`, the arenas with this rank's contributions (none: it contributes nothing), of a bucket
  /// into the arena `result`, which may be one of them. All ranks get the same bits. Returns early if a stop is
  /// requested. Throws comm::PeerLost. With Compression::none all values go as they are, in the order of ranks.
  void operator()(std::size_t bucket, std::span<const float* const> partials, float* result,
                  const std::stop_token& stop);
  /// Call before the sum, with Compression::none. Adds the residuals of earlier steps to `partial`.
  void pass_on_residuals(std::size_t bucket, float* partial);
  /// Most bytes that this rank sends in a step.
  std::size_t bytes_per_step() const;

 private:
  struct Unit : CodedUnit {
    std::size_t owner = 0;
    std::size_t place = 0;  ///< where its code begins, in bytes, among the codes of a bucket by owner
  };
  struct Matrix {
    std::size_t first = 0;
    compression::MatrixShape shape;
    std::size_t left = 0, right = 0;  ///< where its factors begin, in floats; the right one in the state's arena
    std::size_t seed = 0;             ///< where it begins in the whole model
  };
  /// Units and matrices of a bucket that are to be summed.
  struct Part {
    std::vector<Unit> units;
    std::vector<std::size_t> bytes, places;  ///< bytes and begin of the codes that each rank owns
    std::vector<Matrix> matrices;
    std::size_t left = 0;            ///< floats of all left factors
    std::size_t right = 0, end = 0;  ///< the range of the right ones
    std::size_t codes() const { return places.back() + bytes.back(); }
  };
  void divide();
  Part part_of(const Bucket& bucket, const tensor::ArenaLayout& factors);
  void divide(const tensor::TensorView& view, Part& part);
  void count_units();
  const compression::Codec& codec_of(const Unit& unit) const { return unit.is_exact ? exact_ : codec_; }
  std::span<float> values_with_residual(std::size_t first, std::size_t count, std::span<const float* const> partials);
  bool sum_units(const Part& part, std::span<const float* const> partials, float* result, const std::stop_token& stop);
  void sum_own(const Part& part, const Unit& unit);
  void apply_scale(const Part& part, float* result) const;
  void to_moment(const Unit& unit);
  void from_moment(const Unit& unit, float* result);
  void sum_matrices(const Part& part, std::span<const float* const> partials, float* result,
                    const std::stop_token& stop);

  comm::Communicator& communicator_;
  Options options_;  ///< the compression is the one in use
  const tensor::ArenaLayout &layout_, &whole_;
  const std::vector<Bucket> buckets_;
  compression::Codec codec_, exact_;
  std::size_t ranks_, self_;
  std::vector<std::size_t> first_units_;  ///< for each tensor of the layout: units of the whole model before it
  bool has_residuals_ = true;             ///< residuals that may be not 0
  std::vector<Part> parts_;
  std::vector<std::byte> sent_, received_, codes_;
  std::vector<float> left_, right_, sum_, decoded_;
  CompressionState* state_ = nullptr;
  std::optional<Moments> moments_;
  float scale_ = 1;
};

}  // namespace distdl::parallel
