// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/execution/communicator_impl.hpp>
#include <distdl/comm/selection/selection.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kMostPlans = 256;

/// FNV-1a. Only ranks of one node compare fingerprints, so byte order does not matter.
class Fingerprint {
 public:
  template <class Number>
  void add(Number number) {
    for (std::size_t i = 0; i < sizeof number; ++i) {
      value_ ^= static_cast<std::uint64_t>(number) >> (8 * i) & 0xFF;
      value_ *= 0x100000001B3;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

std::uint64_t fingerprint_of(const Problem& problem, const Choice& choice, DataType type) {
  Fingerprint fingerprint;
  fingerprint.add(static_cast<int>(problem.collective));
  fingerprint.add(static_cast<int>(type));
  fingerprint.add(place_of(choice.algorithm));
  fingerprint.add(choice.segment);
  fingerprint.add(problem.root);
  fingerprint.add(problem.count);
  for (std::size_t count : problem.counts) fingerprint.add(count);
  fingerprint.add(problem.leaves);
  for (LeafRange range : problem.ranges) {
    fingerprint.add(range.first);
    fingerprint.add(range.count);
  }
  return fingerprint.value();
}

/// Returns the choice of a node where some of its ranks' memory turns out not to be shared. The other nodes get no
/// report of it.
Choice choose_apart(const Problem& problem, Choice choice, const CallOptions& options, const CostTable& costs) {
  if (choice.algorithm->shared_use == SharedUse::operands)
    return options.choice ? Choice{choice.algorithm->apart} : choose(problem, costs, options.order, Operands::apart);
  choice.staged = true;
  return choice;
}

CollectivePlan make_plan(const Group& group, Problem problem, DataType type, Operands operands,
                         const CallOptions& options, const CostTable& costs) {
  problem.nodes = group.nodes;
  CollectivePlan plan;
  plan.choice = options.choice ? *options.choice : choose(problem, costs, options.order, operands);
  require(plan.choice.algorithm != nullptr, "the choice for this {} names no algorithm", name_of(problem.collective));
  const Algorithm& algorithm = *plan.choice.algorithm;
  plan.uses_node_ranks = algorithm.shared_use != SharedUse::none;
  require(operands != Operands::device || !plan.uses_node_ranks,
          "the algorithm {} needs the host's shared memory, but the operands are in a device's memory", algorithm.name);
  plan.schedule = make_schedule(problem, plan.choice);
  plan.needs_arrival = algorithm.shared_use == SharedUse::operands ||
                       (algorithm.shared_use == SharedUse::operands_unless_staged && !plan.choice.staged);
  if (plan.needs_arrival) plan.staged = make_schedule(problem, choose_apart(problem, plan.choice, options, costs));
  if (problem.collective == Collective::all_to_all && algorithm.shared_use == SharedUse::operands) {
    Choice choice = plan.choice;
    choice.disjoint = true;
    plan.disjoint = make_schedule(problem, choice);
  }
  plan.fingerprint = fingerprint_of(problem, plan.choice, type);
  plan.problem = std::move(problem);
  return plan;
}

}  // namespace

double Communicator::predicted_seconds(const Leaves& leaves, std::size_t count, DataType type) const {
  Problem problem;
  impl_->describe(problem, leaves, count, type);
  problem.nodes = impl_->group.nodes;
  return candidates(problem, impl_->costs, Order::deterministic).front().seconds;
}

const std::shared_ptr<const CollectivePlan>& Communicator::Impl::plan(Problem&& key, DataType type, bool on_device,
                                                                      const CallOptions& options) {
  const auto same = [&](const Known& one) {
    return one.type == type && one.on_device == on_device && one.order == options.order &&
           one.choice == options.choice && one.key == key;
  };
  auto found = std::find_if(plans_.begin(), plans_.end(), same);
  if (found == plans_.end()) {
    if (plans_.size() == kMostPlans) plans_.pop_back();
    const Operands operands = on_device ? Operands::device : Operands::shared;
    auto made = std::make_shared<const CollectivePlan>(make_plan(group, key, type, operands, options, costs));
    found =
        plans_.insert(plans_.end(), {std::move(key), type, on_device, options.order, options.choice, std::move(made)});
  }
  std::rotate(plans_.begin(), found, found + 1);
  return plans_.front().plan;
}

}  // namespace distdl::comm
