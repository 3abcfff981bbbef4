// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::comm {

/// After the first call, UCX's messages go to distdl's log. Warnings are logged while a ContextOpening exists, because
/// they are about settings. All others are logged as debug messages, because distdl's own errors describe failed calls
/// and lost peers. Does nothing if the user has set UCX_LOG_LEVEL.
void route_ucx_log();

/// Exists while UCX reads its settings in the calling thread.
class ContextOpening {
 public:
  ContextOpening();
  ~ContextOpening();
  ContextOpening(const ContextOpening&) = delete;
  ContextOpening& operator=(const ContextOpening&) = delete;
};

}  // namespace distdl::comm
