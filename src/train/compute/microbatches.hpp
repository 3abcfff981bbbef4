// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/records/steps.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/train/bit_flip.hpp>
#include <distdl/train/compute/device_replicas.hpp>
#include <distdl/train/compute/reading_order.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Computes the gradients of microbatches on the devices of this rank: reads their samples ahead, and gives each the
/// random numbers of its place in the run. The gradients of a microbatch depend on the state and its number only.
class Microbatches {
 public:
  /// Not collective. `self`: this rank among all, in whose memory bits may be flipped. `of_step`: microbatches of a
  /// step, of all ranks. `samples`: of each of them. The references must outlive this object. Throws ConfigError for
  /// several devices if `backend` is that of a GPU.
  Microbatches(const Recipe& recipe, kernels::Backend& backend, const OwnedModel& held, Rank self, int of_step,
               std::int64_t samples, std::int64_t devices);

  /// The device replicas, each of which has a network of the first stage of this rank.
  DeviceReplicas& replicas() { return replicas_; }
  /// The network of the first device.
  model::Network& network() { return *replicas_[0].network; }
  /// Samples of a step.
  std::int64_t step_samples() const { return of_step_ * samples_; }
  /// Counts of all devices since the start.
  struct Counts {
    double waited_seconds = 0;  ///< time of waiting for samples, of the device that has waited longest
  };
  Counts counts() const { return {.waited_seconds = replicas_.waited_seconds()}; }
  /// Notes in the record of a step what was counted since `before`: the mean of these steps.
  void note_counts(const Counts& before, records::StepDone& record, std::int64_t steps = 1) const;
  /// Microbatches are numbered from this one of the step on, from now on: the first one of a group.
  void count_from(int first) { first_ = first; }
  /// Makes an error on purpose, for tests and drills.
  void flip(const std::optional<BitFlip>& flip) { flip_ = flip; }
  bool has_flip() const { return flip_.has_value(); }

  /// Begins to read samples ahead in this order, from the step that follows `state`.
  void start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state,
                     const std::shared_ptr<const ReadingOrder>& order);
  /// Reads in another order from the step that follows `state` on. For one device.
  void read_on(const TrainingState& state, const std::shared_ptr<const ReadingOrder>& order);

  /// Gives a network of device `device` the samples of microbatch `m` of the step that follows `state`. Each device may
  /// have a thread of its own, here and below. Throws StorageError if they cannot be read.
  void take_batch(model::Network& network, const TrainingState& state, int m, std::size_t device = 0);
  /// Prepares the random numbers of the microbatch.
  void set_key(const TrainingState& state, int m, std::size_t device = 0);
  /// Writes the gradients of the microbatch to `gradients` (memory of the device's backend), scaled by `scale`.
  void compute(std::size_t device, const TrainingState& state, int m, float scale, float* gradients,
               const model::Network::Finished& finished = {});
  /// Writes the sum of the gradients of a part of the tree over all microbatches, of the step that is `step` steps
  /// later than the one that follows `state`, computed by all devices.
  void compute_sum(const TrainingState& state, std::int64_t step, comm::TreeNode part, float scale, float* gradients);

  /// Flips a bit of this arena if that is to be done before this step, in such an arena.
  void flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena);

 private:
  void compute_part(std::size_t device, const TrainingState& state, std::int64_t step, comm::TreeNode part, float scale,
                    float* gradients);
  /// The positions that a device reads.
  data::Prefetcher::Next positions_from(const TrainingState& state, const std::shared_ptr<const ReadingOrder>& order,
                                        std::size_t device) const;

  const Recipe& recipe_;
  kernels::Backend& backend_;
  Rank self_;
  int of_step_;
  std::int64_t samples_;
  int first_ = 0;
  std::optional<BitFlip> flip_;
  DeviceReplicas replicas_;
  std::vector<tensor::Buffer> sums_;  ///< that the devices add up, besides the first one
};

}  // namespace distdl::train
