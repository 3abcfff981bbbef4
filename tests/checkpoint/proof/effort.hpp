// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdlib>
#include <string>

#include <distdl/base/log.hpp>

namespace distdl::checkpoint::proof {

/// Thousands of damaged checkpoints are reported in the log; nobody wants to read that.
inline const bool kQuiet = (start_logging({Severity::error, false, {}, "", -1}), true);

/// tests/checkpoint/long sets DISTDL_LONG_PROOFS.
inline bool is_long_run() {
  return std::getenv("DISTDL_LONG_PROOFS") != nullptr;
}

/// How many random cases to try in each test run, and in the long run. A sanitizer, which makes each ten times slower,
/// has an eighth of the usual ones.
inline std::size_t cases(std::size_t usual, std::size_t in_long_run) {
#ifdef DISTDL_SANITIZED
  usual /= 8;
#endif
  return is_long_run() ? in_long_run : usual;
}

/// Each operation of a story is tried in the long run, else each fourth.
inline int stride() {
  return is_long_run() ? 1 : 4;
}

/// For random cases; another one tries others.
inline std::uint64_t first_seed() {
  const char* seed = std::getenv("DISTDL_PROOF_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 1;
}

/// For GoogleTest, which takes letters, digits and underscores.
inline std::string test_name(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

}  // namespace distdl::checkpoint::proof
