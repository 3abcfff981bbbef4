// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

#include <distdl/base/log.hpp>

namespace distdl::checkpoint::proof {

/// Thousands of damaged checkpoints are reported in the log; nobody wants to read that.
inline const bool kQuiet = (start_logging({Severity::error, false, {}, "", -1}), true);

/// How many random cases to try: in the long run, when DISTDL_PROOF_FACTOR is set, so many times more.
inline std::size_t share(std::size_t cases) {
  const char* factor = std::getenv("DISTDL_PROOF_FACTOR");
  return cases * (factor ? static_cast<std::size_t>(std::atoi(factor)) : 1);
}

}  // namespace distdl::checkpoint::proof
