// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::comm {

/// From the first call on, what UCX would print goes to distdl's log: warnings while a ContextOpening lives, as they
/// are about settings; all else as debug, for distdl's own errors say what a failed call or a lost peer means. Does
/// nothing where the user has set UCX_LOG_LEVEL.
void route_ucx_log();

/// In the calling thread UCX reads its settings.
class ContextOpening {
 public:
  ContextOpening();
  ~ContextOpening();
  ContextOpening(const ContextOpening&) = delete;
  ContextOpening& operator=(const ContextOpening&) = delete;
};

}  // namespace distdl::comm
