// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::comm {

/// The collectives of one kind that a rank has completed.
struct Traffic {
  std::string name = {};               ///< name_of(Collective)
  std::uint64_t calls = 0, bytes = 0;  ///< bytes: of the operand or the result of this rank, whichever is longer
  /// From their beginning until this rank saw their end: also while it computed, or others were late.
  double seconds = 0;
};

}  // namespace distdl::comm
