// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <distdl/train/events.hpp>

namespace distdl::observe {

/// The row of metrics.jsonl about a step, without the newline. It is written as text at once, because a step of some
/// milliseconds is long enough to drop from the caches whatever builds trees of JSON values. `time`: seconds since
/// 1970. `start`: 0: not known. `has_version`: it is the first row of its start.
std::string step_row(const train::StepDone& event, double time, std::int64_t start, bool has_version);

}  // namespace distdl::observe
