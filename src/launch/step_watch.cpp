// SPDX-License-Identifier: Apache-2.0
#include <distdl/launch/step_watch.hpp>
#include <distdl/slurm/nodes.hpp>

namespace distdl::launch {

bool StepWatch::is_over() {
  if (!next_.expired()) return false;
  const auto step = slurm::has_step(allocation_, name_);
  if (step) missed_ = *step ? 0 : missed_ + 1;
  seen_ = seen_ || step.value_or(false);
  next_ = Deadline::after(seen_ ? period_ : until_seen_.next());
  return seen_ && missed_ >= 2;
}

}  // namespace distdl::launch
