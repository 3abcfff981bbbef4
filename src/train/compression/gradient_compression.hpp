// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/parallel/compressed_sum.hpp>
#include <distdl/train/compression/compression_control.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Whether a loss counts all labels of a microbatch.
bool all_labels_count(const kernels::LossSpec& loss);

/// The compression of a run's gradients, or of what the groups of local SGD send at the end of a round; and with "auto"
/// which one.
class GradientCompression {
 public:
  /// The sums that are compressed: `summing` sums gradients of this layout, in these buckets, and is a part of `world`.
  /// `whole`: layout of the whole model.
  struct Sums {
    comm::Communicator &summing, &world;
    const tensor::ArenaLayout &layout, &whole;
    std::span<const parallel::Bucket> buckets;
  };
  /// `all_labels_count`: the loss ignores none. The references must outlive this object. Throws ConfigError for a
  /// device.
  GradientCompression(const parallel::Options& options, const optim::Options& optimizer, const Sums& sums,
                      const kernels::Backend& backend, bool all_labels_count);
  parallel::CompressedSum& sum() { return compressed_; }
  /// Collective, once.
  void allocate(TrainingState& state);
  /// Before the sums of each step. `before_update` is called before the state is changed.
  void begin_step(TrainingState& state, const std::function<void()>& before_update);
  /// After a step whose gradients overflow: residuals, which have what is not finite, begin at zero again.
  static void skip(TrainingState& state);
  /// Whether the optimizer leaves its second moments as they are in this step.
  bool holds_second_moments() const { return holds_; }
  /// Collective, after each step or round, with the time of its sums, and what the training thread waited for them.
  /// Returns why another one is used from now on, if so.
  std::optional<std::string> step_done(double sum_seconds, double waited_seconds);
  parallel::Compression encoding() const { return compressed_.in_use(); }
  std::string in_use() const { return std::string(OneOf(compressed_.in_use()).name()); }

 private:
  void begin_choice();
  bool codes_moments() const;
  bool may_hold_second_moments() const;
  void begin_to_hold(TrainingState& state, const std::function<void()>& before_update);

  const parallel::Options& options_;
  const optim::Options& optimizer_;
  comm::Communicator &communicator_, &world_;
  const tensor::ArenaLayout& layout_;
  bool all_labels_count_;
  parallel::CompressedSum compressed_;
  std::optional<CompressionChoosing> choosing_;  ///< with "auto"
  bool holds_ = false;
};

}  // namespace distdl::train
