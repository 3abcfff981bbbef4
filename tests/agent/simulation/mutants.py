# SPDX-License-Identifier: Apache-2.0
"""The safeguards of the membership that a test takes away: see tests/mutation.py. All are to be seen by the simulation."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
import mutation  # noqa: E402

S = "simulation"
MUTANTS = [
    # What is known of the others.
    ("older statuses count", S, "membership/peers.cpp", "  if (status.sequence <= known.sequence) return;\n",
     "  if (!{off} && status.sequence <= known.sequence) return;\n"),
    ("hearing in one direction counts as connected", S, "membership/peers.cpp", "(of(a).hears[b.value] && of(b).hears[a.value])",
     "((of(a).hears[b.value] && of(b).hears[a.value]) || ({off} && (of(a).hears[b.value] || of(b).hears[a.value])))"),
    ("time without running counts as silence of others", S, "membership/peers.cpp",
     "std::max(Clock::duration::zero(), now - before - rules_.heartbeat);",
     "{off} ? Clock::duration::zero() : std::max(Clock::duration::zero(), now - before - rules_.heartbeat);"),
    ("what is found after a pause counts as fresh", S, "membership/peers.cpp", "      arrival = {false, before, unseen};\n",
     "      arrival = {false, {off} ? now : before, {off} ? Clock::duration::zero() : unseen};\n"),
    ("excused silence counts as hearing", S, "membership/peers.cpp", "= is_younger(status.node, rules_.dead);\n",
     "= {off} ? is_heard(status.node) : is_younger(status.node, rules_.dead);\n"),
    ("decisions in statuses are ignored", S, "membership/membership.cpp",
     "    if (status.decision.generation > newest->generation) newest",
     "    if (!{off} && status.decision.generation > newest->generation) newest"),
    ("a stop is not passed on", S, "membership/membership.cpp", "    own.stop = own.stop || status.stop;\n",
     "    own.stop = own.stop || (!{off} && status.stop);\n"),
    ("a fault is not passed on", S, "membership/membership.cpp", "    if (own.fault.empty()) own.fault = status.fault;\n",
     "    if (!{off} && own.fault.empty()) own.fault = status.fault;\n"),
    ("silence is no fault", S, "membership/membership.cpp", "  return !peers_.is_heard(member) || is_behind;\n",
     "  return (!{off} && !peers_.is_heard(member)) || is_behind;\n"),
    # Ranks of one generation at a time.
    ("ranks of an older generation run on", S, "membership/membership.cpp", "    if (started_ != generation() || ",
     "    if ((!{off} && started_ != generation()) || "),
    ("ranks that still run are not awaited", S, "membership/membership.cpp",
     "(status.phase == Phase::none || status.phase == Phase::ended);",
     "({off} || status.phase == Phase::none || status.phase == Phase::ended);"),
    ("an end in an older generation counts", S, "membership/membership.cpp",
     "this->status().hears[node.value] && status.decision.generation == generation() &&",
     "this->status().hears[node.value] && ({off} || status.decision.generation == generation()) &&"),
    # Who decides.
    ("a node without ranks takes the silence of members for a fault", S, "membership/membership.cpp",
     "  if (generation() == kBeginning || !is_member() ||", "  if (generation() == kBeginning || (!{off} && !is_member()) ||"),
    ("the smaller part does not pause", S, "membership/pauses.cpp", "return rules.minority_pause;",
     "return {off} ? Milliseconds(0) : rules.minority_pause;"),
    ("a refused ledger is not asked again", S, "membership/membership.cpp", "  asked_.reset();\n  next_question_",
     "  if (!{off}) asked_.reset();\n  next_question_"),
    ("the ledger is not read", S, "membership/membership.cpp", "  if ((!orphan_since_ && !is_late) || asked_",
     "  if ({off} || (!orphan_since_ && !is_late) || asked_"),
    # What is decided.
    ("failures are not limited", S, "membership/next_decision.cpp", "  if (next.failures >= rules.tries)\n",
     "  if (!{off} && next.failures >= rules.tries)\n"),
    ("a node that fails again and again stays", S, "membership/next_decision.cpp", "    if (is_here && !is_bad(node))\n",
     "    if (is_here && ({off} || !is_bad(node)))\n"),
    ("too few nodes go on", S, "membership/next_decision.cpp", "  if (members.size() < rules.min_nodes) members.clear();\n",
     "  if (!{off} && members.size() < rules.min_nodes) members.clear();\n"),
    ("codes that a relaunch cannot help lead to one", S, "membership/next_decision.cpp",
     "  if (ending.restart() == RestartDecision::give_up)", "  if (!{off} && ending.restart() == RestartDecision::give_up)"),
    ("a node with wrong bits stays", S, "membership/next_decision.cpp", "  const auto usable = without(evidence.connected, next.wrong);\n  next.members",
     "  const auto usable = {off} ? evidence.connected : without(evidence.connected, next.wrong);\n  next.members"),
    ("a node with wrong bits is forgotten", S, "membership/next_decision.cpp", "  next.wrong = last.wrong;\n",
     "  if (!{off}) next.wrong = last.wrong;\n"),
    ("a node that is back is not taken in again", S, "membership/membership.cpp", "  if (!rules_.regrow_after || !can_regrow())",
     "  if ({off} || !rules_.regrow_after || !can_regrow())"),
    ("a node that joins is not heard", S, "membership/peers.cpp", "  grow(nodes);\n  Status& known",
     "  if ({off} && nodes > statuses_.size()) return;\n  grow(nodes);\n  Status& known"),
    ("a node that leaves is taken in again", S, "membership/membership.cpp", "is_ready(node) && !peers_.of(node).leave",
     "is_ready(node) && ({off} || !peers_.of(node).leave)"),
    ("a node that leaves is kept", S, "membership/membership.cpp", "(status.leave && contains(decision().members, status.node))",
     "(!{off} && status.leave && contains(decision().members, status.node))"),
    ("decisions with nodes that joined unseen are not taken", S, "membership/membership.cpp",
     "  if (!is_valid(decision, kMostNodes))", "  if (!is_valid(decision, {off} ? status().hears.size() : kMostNodes))"),
    ("nodes that joined go on alone", S, "membership/next_decision.cpp", "  if (std::ranges::any_of(members, belongs)) return;\n",
     "  if ({off} || std::ranges::any_of(members, belongs)) return;\n"),
    ("a node that joins and does not fit ends the launch", S, "membership/next_decision.cpp", ".has_newcomers = !has_trained_ &&",
     ".has_newcomers = !{off} && !has_trained_ &&"),
    ("a restored step counts as one that was made", S, "membership/membership.cpp", "(own.step >= 0 && step > own.step)",
     "(({off} || own.step >= 0) && step > own.step)"),
    ("a node that joined and is out stays", S, "membership/membership.cpp", "  if (is_out) leave();\n", "  if (!{off} && is_out) leave();\n"),
    ("spares run ranks where other nodes could join", S, "membership/next_decision.cpp", "|| others < rules_.own_wanted",
     "|| {off} || others < rules_.own_wanted"),
    ("spares run ranks from the start if nodes may join", S, "membership/next_decision.cpp", "std::min(rules.wanted, rules.own_wanted)",
     "{off} ? rules.wanted : std::min(rules.wanted, rules.own_wanted)"),
    ("a stop for more nodes ends the launch", S, "membership/next_decision.cpp", "(complete && !evidence.regrow)",
     "(complete && ({off} || !evidence.regrow))"),
    ("a stop does not end the launch", S, "membership/next_decision.cpp", "  if (evidence.stop || ", "  if ((!{off} && evidence.stop) || "),
]

mutation.main(MUTANTS)
