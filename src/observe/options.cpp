// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/observe/metrics_endpoint.hpp>
#include <distdl/observe/options.hpp>

namespace distdl::observe {

void check(const Options& options) {
  constexpr std::int64_t kMost = 1 << 20;  // 1 TiB
  severity_from(options.level);
  require(options.records_mib >= 0 && options.records_mib <= kMost,
          "log.records_mib is {}, but must be between 0 (no limit) and {}", options.records_mib, kMost);
  if (!options.openmetrics_listen.empty()) endpoint_address(options.openmetrics_listen);
}

}  // namespace distdl::observe
