// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// An operation as errors name it: "all-reduce 17".
struct Operation {
  const char* name = "";
  std::uint32_t sequence = 0;
};
std::string to_string(const Operation& operation);

/// Something under way that Fabric::wait() waits for; all activities that are under way advance in every wait.
class Activity {
 public:
  virtual ~Activity() = default;
  /// Does what can be done without waiting; true when all is done. Not called again after that.
  virtual bool advance() = 0;
  /// Appends the peers that it waits for now; those it needs something from first.
  virtual void add_awaited(std::vector<Rank>& ranks) const = 0;
  virtual Operation operation() const = 0;
  /// Does it wait for memory that another rank writes? Then nothing wakes a sleeping wait, which must look often.
  virtual bool polls() const { return false; }
  /// Grows with what it has done by itself, without UCX: as long as it grows, a wait stays awake.
  virtual std::uint64_t steps() const { return 0; }
  /// What keeps it where it waits for no peer, for errors.
  virtual std::string own_delay() const { return "its own work, which is a defect of distdl"; }
  /// Gives up: afterwards its memory is the caller's again. Must not throw.
  virtual void cancel() noexcept = 0;
};

}  // namespace distdl::comm
