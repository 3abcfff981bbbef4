// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// An operation with its name in errors, such as "all-reduce 17".
struct Operation {
  const char* name = "";
  std::uint32_t sequence = 0;
  std::uint64_t bytes = 0;  ///< bytes of this rank; 0: not known
};
std::string to_string(const Operation& operation);

/// Something under way for which Fabric::wait() can wait. All activities under way advance in every wait.
class Activity {
 public:
  virtual ~Activity() = default;
  /// Does the work that needs no waiting. Returns true when all is done; it is not called again after that.
  virtual bool advance() = 0;
  /// Appends the peers for which the activity waits now; those from which it needs data come first.
  virtual void add_awaited(std::vector<Rank>& ranks) const = 0;
  virtual Operation operation() const = 0;
  /// Whether it waits for memory that another rank writes. Nothing then wakes a sleeping wait, which must poll often.
  virtual bool polls() const { return false; }
  /// Increases with the work that it does itself, without UCX. While it increases, a wait does not sleep.
  virtual std::uint64_t steps() const { return 0; }
  /// The reason, for errors, why it is not done although it waits for no peer.
  virtual std::string own_delay() const { return "its own work, which is a defect of distdl"; }
  /// Cancels the activity. Afterwards the caller may reuse its memory. Must not throw.
  virtual void cancel() noexcept = 0;
};

}  // namespace distdl::comm
