// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/bit_flip.hpp>
#include <distdl/train/engine/step_result.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/setting.hpp>
#include <distdl/train/state/kept_range.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

class Auditor;

/// The objects and settings that an engine uses. The references must outlive it.
struct EngineSetup {
  const Recipe& recipe;
  const Setting& setting;
  const parallel::Mesh& mesh;
  kernels::Backend& backend;
  const parallel::MicrobatchPlan& plan;  ///< plan of the replicas, with equal shares
  const OwnedModel& held;
  Step total;                                       ///< steps of the run
  const std::optional<parallel::Cluster>& cluster;  ///< see parallel::cluster_for()
  Clock::duration timeout;                          ///< the longest wait for the slowest rank
  records::Observer& observer;
};

/// Does the steps of a run on this rank, in one way of training: each way has an engine, see way_of().
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Memory that the state must have besides the parameters, see allocate() of a state.
  struct Needs {
    std::vector<optim::StateArena> arenas;  ///< arenas, without those of groups
    std::vector<optim::Elements> shard = {};
    bool shards_parameters = false;
    bool in_host_memory = false;  ///< true: in host memory, whatever memory the backend has
    bool saves_shard = false;     ///< see TrainingState::saves_shard
  };
  virtual Needs needs() const = 0;
  /// Collective, once, before all that follows. Memory of the state may move to where other ranks can read it.
  virtual void allocate(TrainingState& state) = 0;
  /// Collective, once, when the state has its first values.
  virtual void share(TrainingState&) {}
  /// Begins to read this rank's samples ahead, from the step that follows `state` on.
  virtual void start_reading(const data::Sources& sources, const data::Sampler& sampler,
                             const TrainingState& state) = 0;
  /// Collective, once, before the first step: from now on what this rank alone has of the state is kept, if the way of
  /// training keeps it (parallel::keeps_ranges()).
  virtual void keep_ranges(const TrainingState&, const KeepRange&) {}
  /// Loads parameters that were changed from outside. `arena`: the arena of the state.
  virtual void load_parameters(const float* arena) = 0;
  /// Parameters of the state where the model's backend can use them, until the next call.
  virtual const float* on_device(const float* arena) { return arena; }

  /// Functions that advance() calls.
  struct Calls {
    std::function<bool()> wants_end;             ///< true if this rank requests to stop or to save during a round
    std::function<StepRequests(Step)> requests;  ///< requests of this rank for the step with this number
    std::function<void()> before_update;         ///< returns when the arenas of the state may be written
  };
  struct Advance {
    StepRequests agreed;  ///< requests of all ranks together
    std::vector<StepResult> steps;
  };
  /// The most steps of a round, which the ranks do without synchronization. Nothing: they synchronize in each step.
  virtual std::optional<std::int64_t> round_steps() const { return std::nullopt; }
  /// Collective. Does some steps, at least one: one, or a round of at most `most_steps`, which is the same on all
  /// ranks. Changes the state. Throws comm::PeerLost, and AuditFailed before it changes the state.
  virtual Advance advance(TrainingState& state, std::int64_t most_steps, const Calls& calls) = 0;
  /// Collective, after advance(), which took `seconds`. Moves work away from what is slow. `is_disturbed`: this rank
  /// was suspended meanwhile.
  virtual void balance(TrainingState& state, const Advance& done, double seconds, bool is_disturbed) = 0;

  /// The networks of this rank's stages, in the order of the stages.
  virtual std::vector<model::Network*> networks() = 0;
  /// Number of devices of this rank.
  virtual std::size_t devices() = 0;
  /// Bytes of the arenas in which gradients are summed.
  virtual std::size_t gradient_bytes() const { return 0; }
  /// The compression of the next step; empty: there is none.
  virtual std::string compression() const { return {}; }
  /// With the parameters of the shard only: makes the passes of an evaluation collective. Null: all parameters can be
  /// read.
  virtual ParameterBlocks* parameter_blocks() { return nullptr; }
  /// Null: this way of training has no audits.
  virtual Auditor* auditor() { return nullptr; }
  /// Sets a bit flip to be done, for tests and drills; nothing: none.
  virtual void flip(const std::optional<BitFlip>& flip) = 0;
};

}  // namespace distdl::train
