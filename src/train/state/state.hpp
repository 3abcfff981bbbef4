// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/fit.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/groups/communicator_group.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/compressed_sum.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/train/state/best.hpp>
#include <distdl/train/state/loss_scale.hpp>

namespace distdl::train {

/// Everything that determines the rest of a run. Two runs with equal TrainingState continue identically in every byte.
struct TrainingState {
  struct OptimizerArena {
    optim::StateArena what;
    tensor::Buffer memory;
  };
  Step step;
  std::int64_t position = 0;  ///< samples taken from the stream so far
  LossScale loss_scale;
  std::optional<Step> audited = {};         ///< the last step whose state passed an audit
  std::optional<BestEvaluation> best = {};  ///< empty: evaluations are not compared, or there was none
  std::int64_t updates = 0;                 ///< steps since the optimizer's moments were zero
  std::int64_t held_updates = 0;            ///< number of these steps that did not change its second moments
  /// True if the arenas, except those of groups, are in host memory; false if they are in the backend's memory.
  bool in_host_memory = false;
  tensor::Buffer parameters;
  std::vector<OptimizerArena> optimizer;  ///< in the order of optim::Optimizer::state()
  /// The elements of which the moments are here, one slice after the other; each other one's are on one other rank.
  /// Empty: all, on each rank. See optim::Shards.
  std::vector<optim::Elements> shard = {};
  /// Only these elements of the parameters and of their average are here, too, each at its place in the arena.
  bool shards_parameters = false;
  /// Though they are all here, this rank saves these elements only, and other ranks save the others.
  bool saves_shard = false;
  parallel::CompressionState compression = {};  ///< state of the compression of gradients; empty: there is none
  /// With local SGD: the states of the groups of this rank, from number `first_group` of `all_groups` on. The members
  /// above are then the result of the last round: the averaged parameters, and the momentum of the outer steps.
  std::vector<TrainingState> groups = {};
  int first_group = 0, all_groups = 0;

  float* parameter_arena() const { return static_cast<float*>(parameters.data()); }
  /// The average of the parameters if there is one, else the parameters.
  float* evaluation_arena() const;
  /// All arenas of a step, with the moments of slice `part` of the shard if there is one.
  optim::Arenas arenas(const float* gradients, std::size_t part = 0) const;
  std::size_t bytes() const;  ///< bytes of all arenas, with the other ranks' moments
};

/// True if the host can access the arenas of a state.
inline bool is_on_host(const TrainingState& state, const kernels::Backend& backend) {
  return state.in_host_memory || backend.memory_is_host();
}

/// Allocates arenas of zeros. `shard`, `shards_parameters`: see TrainingState.
void allocate(TrainingState& state, kernels::Backend& backend, const tensor::ArenaLayout& layout,
              const std::vector<optim::StateArena>& optimizer, std::vector<optim::Elements> shard = {},
              bool shards_parameters = false);

/// Properties that a run compares with those of the run that wrote a checkpoint: a difference is an error or a warning.
using Identity = std::map<std::string, std::string>;

/// Initial values of tensors that a checkpoint lacks.
struct StartValues {
  std::function<void(std::span<float>)> fill;  ///< writes the whole arena of parameters, in host memory
  std::int64_t global_batch = 0;               ///< samples per step
};

/// In the numbers of a state that servers and their partners have kept: how many ranges it has.
inline constexpr const char* kKeptRanges = "server.ranges";

/// In the numbers of a state: TrainingState::held_updates, if there are some.
inline constexpr const char* kHeldUpdates = "held_updates";

/// The state before the first step: parameters and their average have their initial values, and all else is zero.
void begin_state(TrainingState& state, kernels::Backend& backend, const StartValues& values);

/// The part of the model that a rank holds, if it does not hold all of it.
struct HeldPart {
  const model::ModelTensors& tensors;  ///< tensors of the part
  comm::Communicator& holders;         ///< the ranks that hold the same part
  /// True if these ranks save the tensors that are whole in the part. Otherwise other ranks do, which have them too.
  bool saves_whole_tensors = true;
  bool saves_parts = true;  ///< likewise for the parts of divided tensors
  /// With local SGD: the ranks that hold the same groups. Null: there are none.
  comm::Communicator* group = nullptr;
};

/// Access of the host to the groups of a state: to the groups themselves, or to copies of groups on a device.
class GroupsOnHost {
 public:
  /// The reference must outlive this object.
  explicit GroupsOnHost(kernels::Backend& backend) : backend_(backend) {}
  /// Returns a state with accessible groups. If they are copies, the state has only groups, and their values are
  /// undefined.
  const TrainingState& of(const TrainingState& state);
  /// Returns a state as of(), whose groups have the values of those of `state`.
  const TrainingState& read(const TrainingState& state);
  /// Sets the groups of `state` to the values in the result of of().
  void write(const TrainingState& state);

 private:
  /// Passes each arena of a group with its copy.
  void visit(const TrainingState& state,
             const std::function<void(const tensor::Buffer& own, const tensor::Buffer& copy)>& visit);

  kernels::Backend& backend_;
  TrainingState copies_;
};

/// Saves a training state to a checkpoint store and restores it. It divides the state among the ranks, and makes host
/// copies of arenas on a device.
class StateCheckpointer {
 public:
  /// `tensors`: tensors of the whole model. `part`: the part of it that the state here has; none: all. References must
  /// outlive this object.
  StateCheckpointer(kernels::Backend& backend, comm::Communicator& communicator, groups::CommunicatorGroup& group,
                    checkpoint::Store& store, const model::ModelTensors& tensors, Identity identity,
                    const std::optional<HeldPart>& part = {});

  /// The part of the state that this rank saves. The slices point into the state's memory, or into host copies of it.
  struct Part {
    std::vector<checkpoint::Slice> slices;
    checkpoint::State state;
  };
  /// Residuals may be left out, which change while servers keep what they have.
  enum class Residuals { saved, left_out };
  Part part_of(const TrainingState& state, Residuals residuals = Residuals::saved);
  checkpoint::State numbers_of(const TrainingState& state) const;
  /// Collective. Fills `state` from the newest whole snapshot of `levels` or from the newest valid checkpoint,
  /// whichever is newer. Returns a description of the source. Returns nothing if there is none; `state` may then
  /// contain bytes of unusable snapshots.
  ///
  /// The tensors must be exactly those of the state. With `fallback`, a checkpoint may also fit only in part: missing
  /// tensors get initial values, others are ignored, and both are logged. Snapshots that do not fit are skipped if
  /// there are checkpoints. Snapshots that checkpoint::Owner::snapshots_since excludes are always skipped. Afterwards
  /// only the snapshots of the restored step are kept; the log reports if newer ones are removed.
  ///
  /// With `below`, only smaller steps are used, unless there is no such checkpoint. Throws the same Error on all ranks:
  /// incompatible for a checkpoint of another model or data set.
  std::optional<std::string> restore(TrainingState& state, checkpoint::Levels* levels = nullptr,
                                     const StartValues* fallback = nullptr, std::optional<Step> below = {});
  /// True if the restored state was saved by a job with other properties, or lacks some of them.
  bool job_has_changed() const { return job_has_changed_; }

 private:
  struct Arena {
    std::string prefix;
    const tensor::Buffer* memory;
    bool moments;  ///< true: it begins with zeros, and only tensors of Role::parameter have elements
    std::span<const optim::Elements> shard;  ///< elements that are here, if other ranks have the others; else empty
  };
  static std::vector<Arena> arenas(const TrainingState& state);
  /// True if the arena has addresses for all elements, but only those of the shard are here.
  static bool is_reserved(const Arena& arena) { return !arena.moments && !arena.shard.empty(); }
  /// The elements of the arena's memory that are here.
  static std::vector<optim::Elements> held_in(const Arena& arena);
  static bool has_values(const Arena& arena, const tensor::TensorView& view);
  /// The number of the shard's slice that has elements of a tensor, if any.
  static std::optional<std::size_t> slice_of(const Arena& arena, const tensor::TensorView& view);
  bool saves(const Arena& arena, const tensor::TensorView& view) const;
  /// The part of a tensor of the state that is here, if any.
  static std::optional<tensor::Box> box_of(const Arena& arena, const tensor::TensorView& view);
  /// Boxes of the whole tensor that are the box `box` of a view, each with its place in host memory.
  static std::vector<std::pair<tensor::Box, std::byte*>> pieces_of(const Arena& arena, std::byte* host,
                                                                   const tensor::TensorView& view,
                                                                   const tensor::Box& box);
  /// Adds to `part` the slices of what compression keeps that this rank saves.
  void add_residuals(const TrainingState& state, Part& part) const;
  /// Adds to `part` the slices of the groups here that this rank saves.
  void add_groups(const TrainingState& state, Part& part);
  /// The host copy of the arena with this number; for an arena in host memory, the arena itself.
  std::byte* host_copy(const TrainingState& state, std::size_t index, const Arena& arena);
  /// Throws StorageError for a checkpoint of another data set. Unless `partial` is set, it also throws for another
  /// optimizer.
  void check_identity(const checkpoint::State& told, bool partial);
  void check_optimizer(const checkpoint::State& saved, bool partial) const;
  bool counts(const checkpoint::RestorePlan& snapshots, std::optional<Step> below) const;
  std::optional<checkpoint::Summary> newest_valid(std::optional<Step> below,
                                                  const checkpoint::Store::Reading& reading = {});
  /// The targets for all tensors of the model; one without bytes if nothing of a tensor is here.
  std::vector<checkpoint::Target> targets_in(const TrainingState& state);
  void fill_start_values(const TrainingState& state, const StartValues& fallback);
  void tell(const checkpoint::Summary& found, const checkpoint::Fit& fit) const;
  static void check_finite(const checkpoint::Summary& found, const std::vector<checkpoint::Target>& targets);
  void tell_dropped_residuals() const;
  void read(const checkpoint::Summary& found, TrainingState& state, const StartValues* fallback);
  std::optional<std::string> restore(TrainingState& state, checkpoint::Levels& levels,
                                     const checkpoint::RestorePlan& plan, const StartValues* fallback);
  std::vector<checkpoint::ShardReport> read_snapshots(checkpoint::Levels& levels, const checkpoint::RestorePlan& plan,
                                                      TrainingState& state, checkpoint::State& saved,
                                                      const StartValues* fallback);
  /// Averages that a checkpoint lacks begin with the values of the parameters.
  void begin_averages(const TrainingState& state, const std::vector<std::string>& missing);
  /// Called when host memory contains the tensors.
  void take_over(TrainingState& state, Step step, const checkpoint::State& saved, const StartValues* fallback);

  kernels::Backend& backend_;
  std::string backend_description_;  ///< read once: a state in host memory is also saved in other threads
  GroupsOnHost groups_;
  comm::Communicator& communicator_;
  groups::CommunicatorGroup& group_;
  checkpoint::Store& store_;
  const model::ModelTensors& whole_;
  const model::ModelTensors& tensors_;  ///< tensors of the part that is here
  comm::Communicator& holders_;         ///< the ranks that hold the same part
  comm::Communicator* same_groups_;     ///< see HeldPart::group
  bool saves_whole_tensors_, saves_parts_;
  Identity identity_;
  std::vector<tensor::Buffer> staging_;
  bool job_has_changed_ = false;
};

/// The part of a tensor that writer `index` of `writers` stores: some rows of a large tensor; all or nothing of a small
/// one. All writers together store each element once.
std::optional<tensor::Box> share_of(const tensor::Shape& shape, std::size_t tensor_number, int index, int writers);

}  // namespace distdl::train
