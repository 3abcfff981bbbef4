// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/parallel/server/answer_times.hpp>

namespace distdl::parallel::server {

void AnswerTimes::answered(int range, double idle_seconds, Clock::time_point now) {
  const auto question = asked_.extract(range);
  if (question.empty()) return;
  const double seconds = std::chrono::duration<double>(now - question.mapped()).count();
  const double idle = std::isfinite(idle_seconds) ? std::max(0.0, idle_seconds) : 0;
  seconds_.at(static_cast<std::size_t>(range)) += std::max(0.0, seconds - idle);
}

double IdleTimes::answered(Node worker) {
  const auto pull = pulled_.extract(worker);
  return pull.empty() ? 0 : std::chrono::duration<double>(handled_ - pull.mapped()).count();
}

}  // namespace distdl::parallel::server
