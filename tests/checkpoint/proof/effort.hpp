// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdlib>
#include <string>

#include <distdl/base/log.hpp>

namespace distdl::checkpoint::proof {

/// Thousands of damaged checkpoints are reported in the log; nobody wants to read that.
inline const bool kQuiet = (start_logging({Severity::error, false, {}, "", -1}), true);

/// In the long run DISTDL_PROOF_FACTOR is set.
inline bool is_long_run() {
  return std::getenv("DISTDL_PROOF_FACTOR") != nullptr;
}

/// How many random cases to try: in the long run so many times more.
inline std::size_t share(std::size_t cases) {
  const char* factor = std::getenv("DISTDL_PROOF_FACTOR");
  return cases * (factor ? static_cast<std::size_t>(std::atoi(factor)) : 1);
}

/// For GoogleTest, which takes letters, digits and underscores.
inline std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

}  // namespace distdl::checkpoint::proof
