// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/restart.hpp>

namespace distdl {

bool may_pass(int code, const RestartEvidence& evidence) {
  const bool is_about_files =
      code == static_cast<int>(ExitCode::storage) || code == static_cast<int>(ExitCode::incomplete);
  return is_about_files && (evidence.has_trained || evidence.by_later_job);
}

bool blames_newcomers(int code, const RestartEvidence& evidence) {
  return restart_decision(code) == RestartDecision::give_up && evidence.has_newcomers && !evidence.was_taken_away;
}

RestartDecision decide_restart(int code, const RestartEvidence& evidence) {
  const RestartDecision by_table = restart_decision(code);
  if (by_table == RestartDecision::finished) return by_table;
  if (evidence.was_taken_away) return RestartDecision::give_up;
  const bool is_unknown = evidence.may_be_of_srun && entry_of(code) == nullptr;
  const bool can_help = may_pass(code, evidence) || blames_newcomers(code, evidence) || is_unknown;
  if (by_table == RestartDecision::give_up && !can_help) return by_table;
  if (by_table == RestartDecision::resume_later || evidence.told_to_stop) return RestartDecision::resume_later;
  return evidence.is_stuck ? RestartDecision::give_up : RestartDecision::relaunch;
}

bool is_planned_end(int code) {
  const RestartDecision by_table = restart_decision(code);
  return by_table == RestartDecision::finished || by_table == RestartDecision::resume_later ||
         code == static_cast<int>(ExitCode::stopped);
}

}  // namespace distdl
