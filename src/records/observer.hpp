// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/records/record.hpp>

namespace distdl::records {

/// Takes the records of a run as they come, on rank 0. This one does nothing with them.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on(const Record&) {}
  /// The state is about to be kept: whatever is recorded of the steps up to it must outlive this process.
  virtual void save_begins() {}
};

}  // namespace distdl::records
