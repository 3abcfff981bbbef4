// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

void check(const Rules& rules) {
  const auto at_least = [](std::int64_t least, std::int64_t value, const char* what) {
    require(value >= least, "a parameter server with {} = {}: at least {} is expected", what, value, least);
  };
  at_least(0, rules.staleness, "staleness");
  at_least(1, rules.microbatches, "microbatches");
  at_least(1, rules.steps, "steps");
  at_least(1, rules.ranges, "ranges");
  at_least(1, rules.pieces, "pieces");
  at_least(1, rules.late_ticks, "late_ticks");
  require(rules.mode == Mode::bounded || rules.staleness == 0,
          "a parameter server with staleness = {}: only the mode \"bounded\" has it; set it to 0", rules.staleness);
}

bool is_fresh(const Rules& rules, std::int64_t complete, Microbatch microbatch) {
  return rules.mode == Mode::asynchronous || complete >= rules.step_of(microbatch) - rules.staleness;
}

}  // namespace distdl::parallel::server
