// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/comm/faults/fault_plan.hpp"
#include <distdl/comm/communicator.hpp>

namespace distdl::comm::faults {

/// One rank of one generation, connected.
class Session {
 public:
  Session(world::World& world, const Options& options, const std::vector<Work>& works);

  Communicator& comm() { return *comm_; }
  /// Begins a piece of work; the one before must be finished.
  void begin(Work work);
  /// Lets it advance a little.
  void advance();
  /// Throws InternalError if the result is wrong.
  void finish();
  void close() { comm_->close(); }

 private:
  std::vector<std::int32_t>& memory(std::size_t count);
  void begin_sum(std::span<std::int32_t> values, const CallOptions& options = {});
  void begin_move(Work work);
  void begin_ring();
  void check() const;

  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Communicator> part_;
  tensor::Buffer shared_;
  struct Expected {
    std::span<const std::int32_t> values;
    std::int32_t all;
  };
  std::vector<Expected> expected_;
  std::vector<std::vector<std::int32_t>> memory_;
  std::vector<Request> requests_;  ///< destroyed before what they work on
};

}  // namespace distdl::comm::faults
