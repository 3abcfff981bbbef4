// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/observe/metrics/metrics_endpoint.hpp>
#include <distdl/observe/options.hpp>

namespace distdl::observe {

void check(const Options& options) {
  constexpr std::int64_t kMost = 1 << 20;  // 1 TiB
  severity_from(options.level);
  require(options.records_mib >= 0 && options.records_mib <= kMost,
          "log.records_mib is {}, but must be between 0 (no limit) and {}", options.records_mib, kMost);
  constexpr std::int64_t kMostSamples = 1000;
  require(options.tensorboard_histograms >= 0,
          "log.tensorboard_histograms is {}, but must be 0 (none) or the number of checkpoints of which one is shown",
          options.tensorboard_histograms);
  require(options.tensorboard_samples >= 0 && options.tensorboard_samples <= kMostSamples,
          "log.tensorboard_samples is {}, but must be between 0 and {}", options.tensorboard_samples, kMostSamples);
  require(options.tensorboard || (options.tensorboard_histograms == 0 && options.tensorboard_samples == 0), "{}",
          "log.tensorboard_histograms and log.tensorboard_samples have no effect without log.tensorboard = true");
  if (!options.openmetrics_listen.empty()) endpoint_address(options.openmetrics_listen);
}

}  // namespace distdl::observe
