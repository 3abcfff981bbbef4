// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace distdl::agent {

/// The functions of another process by their addresses, from /proc/PID/maps and the symbol tables of its ELF files,
/// also those that are not exported. Without debug information there are no lines.
class Symbols {
 public:
  explicit Symbols(pid_t process);
  ~Symbols();
  /// "distdl::data::Prefetcher::run() (distdl)"; "libm.so.6+0x1234" if the file has no symbol there. `is_return`: it is
  /// the address after a call.
  std::string name_of(std::uint64_t address, bool is_return);

 private:
  struct Mapping {
    std::uint64_t begin, end, offset;
    std::string file;
  };
  class File;
  const File& file(const std::string& path);

  std::vector<Mapping> mappings_;
  std::map<std::string, std::unique_ptr<File>> files_;
};

}  // namespace distdl::agent
