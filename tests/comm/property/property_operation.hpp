// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/comm/property/property_case.hpp"
#include "tests/comm/property/property_truth.hpp"

namespace distdl::comm::property {

/// Memory of one rank for operations under way: from allocate(), or plain, each piece between guards.
class Memory {
 public:
  /// Collective.
  Memory(Communicator& comm, std::size_t shared_bytes);
  std::span<std::byte> take(std::size_t bytes, bool shared, std::size_t alignment);
  /// "" if nothing was written beside the pieces.
  std::string judge_guards() const;
  /// All pieces are free again.
  void reset();

 private:
  tensor::Buffer shared_;
  std::size_t used_ = 0;
  std::vector<std::vector<std::byte>> plain_;
  std::vector<std::span<std::byte>> guards_;
};

/// One rank's part of a case.
class RankOperation {
 public:
  RankOperation(Communicator& comm, Memory& memory, const Case& one, const Shape& shape,
                std::shared_ptr<const Truth> truth);

  Request begin();
  /// After it: "" or what is wrong.
  std::string judge() const;

 private:
  void lay_out(Memory& memory);
  Request begin_move(const CallOptions& options);
  Vector output() const;
  ConstVector input() const;

  Communicator& comm_;
  const Case one_;
  const Shape shape_;
  std::shared_ptr<const Truth> truth_;
  int rank_;
  std::vector<std::span<std::byte>> inputs_;  ///< per part
  std::span<std::byte> output_;
  bool apart_ = true;  ///< input and output do not overlap
};

}  // namespace distdl::comm::property
