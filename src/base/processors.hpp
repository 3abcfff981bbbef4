// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace distdl {

/// The processors that the calling thread may run on, ascending. Empty if the machine has more than 1024 of them.
std::vector<int> usable_processors();
/// The given processors, sorted by NUMA domain, then by core, then by number.
std::vector<int> by_place(std::vector<int> processors);
/// Divides the processors into equal parts, each of consecutive elements. A remainder is in no part. The parts are
/// empty if there are fewer processors than parts.
std::vector<std::vector<int>> equal_parts(const std::vector<int>& processors, std::size_t parts);

/// The kind of a processor, from the text of /proc/cpuinfo: on x86 its "model name", on Arm, which has none, such as
/// "Arm implementer 0x41 part 0xd4f". "unknown" without either.
std::string processor_name(std::istream& cpuinfo);

/// Binds the calling thread, and so those that it starts from now on. None: it stays where it is. False: the system
/// refuses it.
bool bind_this_thread(const std::vector<int>& processors);

/// While it lives, the calling thread is bound; then it may run where it might before.
class BoundThread {
 public:
  explicit BoundThread(const std::vector<int>& processors);
  ~BoundThread() { bind_this_thread(before_); }
  BoundThread(const BoundThread&) = delete;
  BoundThread& operator=(const BoundThread&) = delete;

 private:
  std::vector<int> before_;  ///< none: it is not bound
};

}  // namespace distdl
