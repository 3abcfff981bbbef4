// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/device/library_execution.hpp>
#include <distdl/comm/execution/active_messages.hpp>
#include <distdl/comm/execution/any_receive.hpp>
#include <distdl/comm/execution/execution.hpp>
#include <distdl/comm/execution/group.hpp>
#include <distdl/comm/execution/transfer.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

struct Communicator::Impl {
  Impl(std::shared_ptr<Fabric> the_fabric, std::uint8_t id, std::vector<Rank> members, Rank self, std::string the_job,
       std::unique_ptr<NodeMemory> the_memory)
      : fabric(std::move(the_fabric)),
        job(std::move(the_job)),
        memory(std::move(the_memory)),
        group(*fabric, id, std::move(members), self) {}
  ~Impl() {
    if (mail) fabric->remove(poller);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The next collective. Its number is equal on all ranks, because they call the same ones in the same order.
  Operation next(const char* name) { return {name, ++group.sequence}; }
  /// Valid until the next call.
  const std::shared_ptr<const CollectivePlan>& plan(Problem&& key, DataType type, bool on_device,
                                                    const CallOptions& options);
  Request start(const char* name, Problem&& key, Execution::Call& call, const CallOptions& options);
  Request start_reduction(const char* name, Problem&& key, Execution::Call& call, int terms,
                          const CallOptions& options);
  /// Where collectives of this kind are counted.
  Traffic& traffic(Collective collective) const { return fabric->traffic().at(static_cast<std::size_t>(collective)); }
  Request transfer(Direction direction, std::span<std::byte> bytes, Rank peer, std::uint32_t tag,
                   const CallOptions& options);
  /// Both are kept in `last`.
  Execution::Call& call_of(ConstVector values, Vector result);
  Problem& problem(Collective collective, DataType type);
  void describe(Problem& problem, Collective collective, DataType type) const;
  void describe(Problem& problem, const Leaves& leaves, std::size_t count, DataType type) const;
  /// Makes `last` an all-reduce of so many elements. Throws ConfigError for partial sums that do not fit.
  void describe_sum(const char* name, const Leaves& leaves, std::span<const ConstVector> partials, std::size_t count,
                    Vector result);
  /// Calls `how`, which attaches memory of the node's ranks. Throws PeerLost if it fails because one of these ranks is
  /// lost.
  void attach(const char* name, const std::function<void()>& how);
  /// Collective.
  NodeMemory::Created allocate(Communicator& communicator, std::size_t bytes);
  /// A buffer that releases the node's memory with this number.
  tensor::Buffer owned(int id, std::byte* data, std::size_t bytes) const;
  /// Attaches the segments of the node's ranks. `segments` are the names of all ranks' segments.
  void meet_node_ranks(const std::vector<std::string>& segments);
  Transfer& idle_transfer();
  Request start(Transfer& transfer, const CallOptions& options) const;
  /// The world rank. Throws ConfigError for a rank that is not in this communicator.
  Rank member(Rank rank) const;
  /// Throws ConfigError if `data` is in a device's memory, where only collectives work. `what` names the operand.
  void require_host_memory(const char* what, const void* data) const;
  ActiveMessages& active_messages();
  std::size_t place() const { return static_cast<std::size_t>(group.rank); }
  Clock::duration timeout(const CallOptions& options) const;
  /// "rank 2 (n2): message" of the first rank whose vote says that it failed; empty if none did.
  std::string first_problem(const std::vector<std::string>& votes) const;

  std::shared_ptr<Fabric> fabric;  ///< fabric of the whole world
  std::string job;                 ///< a part of the names of shared memory
  std::unique_ptr<NodeMemory> memory;
  Group group;
  std::optional<Mail> mail;  ///< empty until the ranks of the node are attached
  std::list<Fabric::Poller>::iterator poller;
  Options connect_options;
  std::unique_ptr<ActiveMessages> messages;  ///< empty until active messages are used
  std::vector<std::unique_ptr<AnyReceive>> any_receives;
  CostTable costs;  ///< equal on all ranks
  struct {
    Problem problem;
    Execution::Call call;
  } last;                      ///< collective; kept for its memory: one that is known allocates nothing
  std::uint8_t newest_id = 0;  ///< newest id among this communicator and those split from it

  /// Creates group.device if all ranks have an accelerator. Throws ConfigError if only some have one.
  void agree_on_device(Communicator& communicator, std::shared_ptr<Accelerator> accelerator);
  /// Creates group.library according to Options::gpu_transport. Throws ConfigError if "nccl" is not available.
  void agree_on_library(Communicator& communicator);
  /// Whether the library performs the operation. The result is the same on all ranks.
  bool takes_library(const Problem& problem, const Execution::Call& call, const CallOptions& options) const;
  Request start_library(const char* name, const Problem& problem, Execution::Call& call, const CallOptions& options);
  /// Whether the operands are in the device's memory. Throws ConfigError if only some are, or if one is not aligned.
  bool on_device(const char* name, const Execution::Call& call) const;

  /// Uses rank 0's costs on all ranks.
  void agree_on_costs(Communicator& communicator);
  /// Discards earlier plans.
  void use(const CostTable& others);
  Choice last_choice() const { return plans_.empty() ? Choice() : plans_.front().plan->choice; }

 private:
  struct Known {
    Problem key;
    DataType type;
    bool on_device;
    Order order;
    std::optional<Choice> choice;
    std::shared_ptr<const CollectivePlan> plan;
  };
  std::vector<Known> plans_;  ///< the last used one is first
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<std::unique_ptr<LibraryExecution>> library_executions_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

}  // namespace distdl::comm
