// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/fabric.hpp>

namespace distdl::comm {

struct Communicator::Impl {
  explicit Impl(const Options& options) : fabric(options) {}
  /// The next collective. All ranks count alike, since all call the same ones in the same order.
  Operation next(const char* name) { return {name, ++sequence}; }

  Fabric fabric;
  std::uint32_t sequence = 0;
  std::vector<float> scratch;  ///< of tree_all_reduce
};

}  // namespace distdl::comm
