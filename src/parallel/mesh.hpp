// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <distdl/comm/communicator.hpp>
#include <distdl/parallel/groups.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::parallel {

/// The sizes of the mesh: data replicas, each of which is a pipeline of so many stages, whose tensor shards lie on so
/// many ranks, and whose sequences are shared by so many.
struct Degrees {
  int data = 1, pipeline = 1, tensor = 1, context = 1;
  int groups = 0;  ///< groups of local SGD, among which the data replicas are divided; 0: the replicas train together
  /// Number of ranks that compute a microbatch together.
  int parts() const { return pipeline * tensor * context; }
  int ranks() const { return data * parts(); }
  bool operator==(const Degrees&) const = default;
};

/// Returns a name such as "4x2x1 sharded, blocks": replicas x stages x tensor ranks, the strategy, and that activations
/// are computed again. With several context ranks "2x2x1x2 ...".
std::string product_name(const Degrees& degrees, OneOf<Strategy> strategy, bool recomputes);

/// The ranks of a run as a mesh: rank = ((data coordinate * degrees.pipeline + pipeline coordinate) * degrees.context +
/// context coordinate) * degrees.tensor + tensor coordinate. The ranks of a tensor group, which communicate most, have
/// consecutive numbers, then those of a context group, then those of a pipeline. So they stay within a node where they
/// fit. Only the sums over the data group, once per step, go farther.
class Mesh {
 public:
  /// Collective. `world` has degrees.ranks() ranks and must outlive the mesh.
  Mesh(comm::Communicator& world, const Degrees& degrees);
  const Degrees& degrees() const { return degrees_; }
  /// All ranks.
  comm::Communicator& world() const { return world_; }
  /// The ranks that hold the same part of the model, and of the sequences, as this one, by their data coordinate.
  comm::Communicator& data() const { return data_ ? *data_ : world_; }
  /// The ranks of this one's pipeline, by their pipeline coordinate. Only if there are several.
  comm::Communicator& pipeline() const { return *pipeline_; }
  bool has_pipeline() const { return degrees_.pipeline > 1; }
  /// The ranks that have the tensor shards of the same layers, by their tensor coordinate. Only if there are several.
  comm::Communicator& tensor() const { return *tensor_; }
  bool has_tensor() const { return degrees_.tensor > 1; }
  /// The ranks that have the chunks of the same sequences in the same layers and shards, by their context coordinate.
  /// Only if there are several.
  comm::Communicator& context() const { return *context_; }
  bool has_context() const { return degrees_.context > 1; }
  /// The ranks that compute a microbatch together with this one. Only if there are several.
  comm::Communicator& replica() const {
    if (replica_) return *replica_;
    return has_context() ? *context_ : has_tensor() ? *tensor_ : *pipeline_;
  }
  /// The ranks that sum gradients together: those of data(), or with local SGD those that have the group of this one.
  comm::Communicator& summing() const { return group_ ? *group_ : data(); }
  bool has_groups() const { return degrees_.groups > 0; }
  /// With local SGD: the groups of this rank.
  comm::LeafRange groups() const { return share_.groups; }
  bool has_parts() const { return degrees_.parts() > 1; }
  /// True if this rank reports for all ranks of its tensor group, which have the same values.
  bool is_first_of_tensor() const { return !has_tensor() || tensor_->rank() == Rank(0); }
  /// True if this rank reports for all ranks of its context group.
  bool is_first_of_context() const { return !has_context() || context_->rank() == Rank(0); }
  bool is_first_of_group() const { return is_first_of_tensor() && is_first_of_context(); }

 private:
  comm::Communicator& world_;
  Degrees degrees_;
  std::unique_ptr<comm::Communicator> data_, pipeline_, tensor_, context_;  ///< none: one coordinate only
  std::unique_ptr<comm::Communicator> replica_;                             ///< none: it is one of these
  std::unique_ptr<comm::Communicator> group_;                               ///< none: there are no groups
  GroupShare share_;
};

/// Returns the sizes of the mesh for so many ranks, with the pipelines, context groups and tensor groups that the
/// options ask for. `most_stages`: most stages of the model. Throws ConfigError if the ranks cannot form them; the text
/// names the nearest choice that is possible with so many ranks, or else a number of ranks that is possible.
Degrees degrees_of(const Options& options, int ranks, int most_stages);

/// Returns the sizes of the mesh for a run that must continue with the ranks that there are. The number of ranks that
/// own the model together is as near as possible to the wanted one; of two the larger one, which needs less memory per
/// rank. `reason` becomes why the sizes are not those that the options ask for, or empty. Throws ConfigError if there
/// are none.
Degrees nearest_degrees(const Options& options, int ranks, int most_stages, std::string& reason);

/// True if ranks give back the memory of gradients of other ranks' shards during the backward pass. A rank with several
/// microbatches adds their gradients first, which takes all of the memory, and so do a pipeline and compressed sums.
bool gives_gradients_back(const Options& options, const Degrees& degrees);
/// True if replicas with parts of the parameters read them in one arena. False if several ranks own a model together.
bool share_parameters(const Options& options, const Degrees& degrees, bool on_one_node);
/// True if buckets take turns in memory, as gradients or as parameters: then each has kBucketShare of them or
/// kLeastInTurn, unless parallel.bucket_mib says otherwise. `on_one_node`: the ranks that sum gradients together are on
/// one node.
bool takes_turns(const Options& options, const Degrees& degrees, bool on_one_node);

/// Whether ranks with shards gather what a step has changed of the parameters in codes, see train::ChangeGather.
bool codes_changes(const Options& options);

}  // namespace distdl::parallel
