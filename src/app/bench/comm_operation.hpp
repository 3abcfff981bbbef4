// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::app {

/// The operations that "distdl bench comm" can measure: the collectives, and a message from the first to the last rank
/// and back.
enum class Operation {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  send_receive,
};
std::string_view name_of(Operation operation);
/// Throws UsageError that lists the possible names.
Operation operation_of(std::string_view name);
std::vector<std::string> operation_names();

/// Bus bandwidth / algorithm bandwidth, as in NVIDIA's nccl-tests (doc/PERFORMANCE.md): the part of the data that
/// crosses the busiest link.
double bus_factor(Operation operation, int ranks);
/// The bytes that the ranks of one node must at least read and write together, as multiples of the vector's bytes.
double memory_traffic(Operation operation, int ranks);
/// The bytes that the busiest node must at least send or receive, as multiples of the vector's bytes, with `local`
/// ranks per node.
double network_traffic(Operation operation, int ranks, int local);

/// The memory that all operations of a benchmark use.
struct Workspace {
  Workspace(comm::Communicator& communicator, std::size_t bytes);
  tensor::Buffer values, others;
};

/// One operation on vectors of one size, in place if possible. Reductions are sums.
class OperationRun {
 public:
  /// `bytes` of the whole vector are rounded down to a divisible number.
  OperationRun(comm::Communicator& communicator, Workspace& workspace, Operation operation, comm::DataType type,
               std::size_t bytes, const comm::CallOptions& options);

  std::size_t bytes() const { return count_ * comm::size_of(type_); }
  void call();
  /// The choice of distdl, after a call of is_right().
  comm::Choice choice() const { return choice_; }
  /// Collective. Sets numbers, calls the operation, and compares all results on all ranks. The memory is zero
  /// afterwards.
  bool is_right();
  /// Collective. The seconds per call of the slowest rank, for each of several blocks of calls that follow a barrier.
  /// Takes about `seconds`.
  std::vector<double> measure(double seconds);

 private:
  comm::Vector all() const { return {workspace_.values.data(), count_, type_}; }
  comm::Vector own() const;
  comm::Vector others() const { return {workspace_.others.data(), count_, type_}; }
  comm::Vector none() const { return {nullptr, 0, type_}; }
  void there_and_back();
  double block(int calls);
  std::optional<double> expected(std::size_t i) const;

  comm::Communicator& communicator_;
  Workspace& workspace_;
  Operation operation_;
  comm::DataType type_;
  std::size_t count_, slice_;
  comm::CallOptions options_;
  comm::Choice choice_;
};

}  // namespace distdl::app
