// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl::observe {

/// A run file of W&B: a header of its own, then records in LevelDB's log format
/// (https://github.com/google/leveldb/blob/main/doc/log_format.md), but with zlib's CRC-32, unmasked. Blocks have 32768
/// bytes. A record that does not fit into the rest of one is divided.
class RunLog {
 public:
  RunLog();
  void append(std::string_view record);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace distdl::observe
