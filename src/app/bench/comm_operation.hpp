// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::app {

/// What "distdl bench comm" can measure: the collectives, and a message there and back between the first and the last
/// rank.
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
/// Throws UsageError naming the possible ones.
Operation operation_of(std::string_view name);
std::vector<std::string> operation_names();

/// Bus bandwidth / algorithm bandwidth, as in NVIDIA's nccl-tests (doc/PERFORMANCE.md): so much of the data crosses the
/// busiest link.
double bus_factor(Operation operation, int ranks);
/// Bytes that the ranks of one node cannot but read and write together, as multiples of the vector's.
double memory_traffic(Operation operation, int ranks);
/// Bytes that the busiest node cannot but send or receive, as multiples of the vector's, with `local` ranks per node.
double network_traffic(Operation operation, int ranks, int local);

/// Memory that all operations of a benchmark work on.
struct Workspace {
  Workspace(comm::Communicator& communicator, std::size_t bytes);
  tensor::Buffer values, others;
};

/// One operation on vectors of one size, in place where it can be; sums.
class OperationRun {
 public:
  /// `bytes`: of the whole vector; rounded down to what can be divided.
  OperationRun(comm::Communicator& communicator, Workspace& workspace, Operation operation, comm::DataType type,
               std::size_t bytes, const comm::CallOptions& options);

  std::size_t bytes() const { return count_ * comm::size_of(type_); }
  void call();
  /// How distdl does it, once it was called by is_right().
  comm::Choice choice() const { return choice_; }
  /// Collective: puts numbers in, calls, compares all results on all ranks. The memory is zero afterwards.
  bool is_right();
  /// Collective: seconds per call of the slowest rank, of each of several blocks of calls that follow a barrier;
  /// takes about `seconds`.
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
