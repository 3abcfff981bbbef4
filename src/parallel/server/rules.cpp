// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

void check(const Rules& rules) {
  // Products and sums of them fit into their types.
  static constexpr std::int64_t kMost = 1 << 30;
  const auto within = [](std::int64_t least, std::int64_t value, const char* what) {
    require(value >= least && value <= kMost, "a parameter server with {} = {}: {} to {} are possible", what, value,
            least, kMost);
  };
  within(0, rules.staleness, "staleness");
  within(1, rules.microbatches, "microbatches");
  within(1, rules.steps, "steps");
  within(1, rules.ranges, "ranges");
  within(1, rules.pieces, "pieces");
  within(1, rules.late_ticks, "late_ticks");
  require(rules.mode == Mode::bounded || rules.staleness == 0,
          "a parameter server with staleness = {}: only the mode \"bounded\" has it; set it to 0", rules.staleness);
}

bool is_fresh(const Rules& rules, std::int64_t complete, Microbatch microbatch) {
  return rules.mode == Mode::asynchronous || complete >= rules.step_of(microbatch) - rules.staleness;
}

}  // namespace distdl::parallel::server
