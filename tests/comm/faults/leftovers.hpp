// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::comm::faults {

/// What a process holds, as /proc tells.
struct Holdings {
  std::vector<std::string> descriptors;  ///< what each points to
  std::vector<std::string> mappings;     ///< of memory shared with others
  int threads = 0;

  static Holdings now();
  /// "" or what there is more of than in `before`, and stays: the kernel lists a thread for a moment after it has been
  /// joined.
  static std::string left_since(const Holdings& before);

 private:
  std::string beyond(const Holdings& before) const;
};

}  // namespace distdl::comm::faults
