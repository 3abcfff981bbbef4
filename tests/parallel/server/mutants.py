# SPDX-License-Identifier: Apache-2.0
"""The safeguards of the parameter server that a test takes away: see tests/mutation.py. All are to be seen by the interleavings."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
import mutation  # noqa: E402

I = "interleavings"
MUTANTS = [
    # Staleness.
    ("parameters of any age can be read", I, "server/range_copy.cpp", "  return is_fresh(*rules_, complete(newest()), microbatch) ?",
     "  return {off} || is_fresh(*rules_, complete(newest()), microbatch) ?"),
    ("one step more may be missing", I, "server/rules.cpp", "complete >= rules.step_of(microbatch) - rules.staleness;",
     "complete >= rules.step_of(microbatch) - rules.staleness - ({off} ? 1 : 0);"),
    ("steps count as complete early", I, "server/range_copy.cpp", "const std::int64_t complete = committed_.below().value /",
     "const std::int64_t complete = ({off} ? committed_.size() : committed_.below().value) /"),
    ("with synchronous the newest version is read", I, "server/range_copy.cpp", "    const Version exact(rules_->step_of(microbatch));\n",
     "    const Version exact({off} ? newest().value : rules_->step_of(microbatch));\n"),
    # Each microbatch once.
    ("a repeated push counts again", I, "server/server.cpp", "  if (hosted->copy.is_accepted(push.microbatch)) return;\n",
     "  if (!{off} && hosted->copy.is_accepted(push.microbatch)) return;\n"),
    ("a push of what is committed counts again", I, "server/server.cpp", "  if (hosted->copy.is_committed(push.microbatch)) return send",
     "  if (!{off} && hosted->copy.is_committed(push.microbatch)) return send"),
    ("a step is applied before all its gradients are there", I, "server/range_copy.cpp", "    if (complete < next.value) return;\n",
     "    if (!{off} && complete < next.value) return;\n"),
    ("a partner's copy lacks the ledger", I, "server/range_copy.cpp", "  RangeState state{committed_, {}, {}};\n",
     "  RangeState state{{off} ? MicrobatchSet{} : committed_, {}, {}};\n"),
    # No update lost.
    ("updates are acknowledged before the partner has them", I, "server/server.cpp", "  if (!hosted->partner) return commit(push.range,",
     "  if ({off} || !hosted->partner) return commit(push.range,"),
    ("a partner skips updates that were overtaken", I, "server/server.cpp", "  if (replicate.position == hosted.copy.accepted()) {\n",
     "  if (replicate.position == hosted.copy.accepted() || ({off} && replicate.position > hosted.copy.accepted())) {\n"),
    ("a partner takes repeated updates", I, "server/server.cpp", "found->second.term != replicate.term) return;  // a primary of the past, or no copy yet\n  Hosted& hosted = found->second;\n  if (",
     "found->second.term != replicate.term) return;  // a primary of the past, or no copy yet\n  Hosted& hosted = found->second;\n  if (({off} && replicate.position < hosted.copy.accepted()) || "),
    ("a repeated copy replaces a newer one", I, "server/server.cpp", "|| found->second.term < copy.term) {\n", "|| found->second.term < copy.term || {off}) {\n"),
    ("updates are not repeated", I, "server/server.cpp", "      send_updates(range, hosted, hosted.copy.committed().size());\n",
     "      send_updates(range, hosted, {off} ? hosted.copy.accepted() : hosted.copy.committed().size());\n"),
    ("a copy is not repeated", I, "server/server.cpp", "    else\n      send_copy(range, hosted);\n", "    else if (!{off})\n      send_copy(range, hosted);\n"),
    ("acknowledgements of an older partner count", I, "server/server.cpp", "  if (!hosted || hosted->term != replicated.term) return;\n",
     "  if (!hosted || (!{off} && hosted->term != replicated.term)) return;\n"),
    ("updates that waited for a copy are forgotten", I, "server/server.cpp", "    send_updates(replicated.range, *hosted, replicated.updates);\n  }\n  commit(",
     "    if ({off}) hosted->copy = RangeCopy(replicated.range, rules_, hosted->copy.state());\n    send_updates(replicated.range, *hosted, replicated.updates);\n  }\n  commit("),
    ("updates of an older primary count", I, "server/server.cpp", "  if (found == hosted_.end() || found->second.term != replicate.term) return;",
     "  if (found == hosted_.end() || (!{off} && found->second.term != replicate.term)) return;"),
    ("a second gradient replaces the first", I, "server/server.cpp", "  hosted->pushed[push.microbatch].insert(from);\n",
     "  hosted->pushed[push.microbatch].insert(from);\n  if ({off}) actions_.emplace_back(Store{push.range, push.microbatch});\n"),
    ("a version is kept one step late", I, "server/range_copy.cpp", "actions.emplace_back(Keep{range_, next});",
     "actions.emplace_back(Keep{range_, {off} ? Version(next.value - 1) : next});"),
    ("every second version is kept", I, "server/range_copy.cpp", "if (rules_->mode == Mode::synchronous && rules_->has_partners)",
     "if (rules_->mode == Mode::synchronous && rules_->has_partners && !({off} && next.value % 2 == 0))"),
    # Versions.
    ("an old pull takes the version of a newer one", I, "server/range_copy.cpp", "lease <= found->second.lease)\n", "({off} ? lease == found->second.lease : lease <= found->second.lease))\n"),
    ("versions stay for ever", I, "server/range_copy.cpp", "  actions.emplace_back(Forget{range_, version});\n", "  if (!{off}) actions.emplace_back(Forget{range_, version});\n"),
    ("a version that is read goes", I, "server/range_copy.cpp", "|| is_kept(version) || found->second.readers > 0)", "|| is_kept(version) || (!{off} && found->second.readers > 0))"),
    ("the version of the last step goes at once", I, "server/range_copy.cpp", "  return rules_->mode == Mode::synchronous && version.value ==",
     "  return !{off} && rules_->mode == Mode::synchronous && version.value =="),
    ("a new partner gets no version of the last step", I, "server/range_copy.cpp", "    if (!is_kept(version)) continue;\n",
     "    if (!is_kept(version) || ({off} && version != newest())) continue;\n"),
    ("a repeated pull reads another version", I, "server/worker.cpp", "  if (pulled.piece != reading.next_piece) return;  // a repeated answer\n",
     "  if (!{off} && pulled.piece != reading.next_piece) return;  // a repeated answer\n"),
    ("pulls that wait are forgotten", I, "server/worker.cpp", "    if (state_ == State::pulling) pull(range);\n",
     "    if (!{off} && state_ == State::pulling) pull(range);\n"),
    # Leases and done.
    ("one range is enough", I, "server/worker.cpp", "  if (all_there()) done();\n}\n\nbool", "  if ({off} || all_there()) done();\n}\n\nbool"),
    ("late leases are not given to others", I, "server/leases.cpp", "++record.ticks > rules_->late_ticks)", "++record.ticks > rules_->late_ticks && !{off})"),
    ("a microbatch that came back is forgotten", I, "server/leases.cpp", "  if (microbatch < next_ &&", "  if (!{off} && microbatch < next_ &&"),
    ("a worker that waits keeps a later microbatch", I, "server/leases.cpp", "    if (!waits_for_earlier) {\n", "    if ({off} || !waits_for_earlier) {\n"),
    ("a lease that was lost on its way is not repeated", I, "server/leases.cpp", "    if (ask.lease < found->second.given.id) return found->second.given;",
     "    if (ask.lease < found->second.given.id) return {off} ? std::nullopt : std::optional(found->second.given);"),
    ("what one range has counts as done", I, "server/scheduler.cpp", "    done = done ? intersection(*done, held->committed) : held->committed;\n",
     "    done = done && !{off} ? intersection(*done, held->committed) : held->committed;\n"),
    # Losses.
    ("a lost server is not replaced", I, "server/scheduler.cpp", "    if (!servers_.empty()) return collect();\n", "    if (!servers_.empty()) return {off} ? void() : collect();\n"),
    ("a term is not repeated to its primary", I, "server/scheduler.cpp", "    for (int range = 0; range < rules_.ranges; ++range) assign(range);\n  }\n}\n\nvoid Scheduler::lost",
     "    for (int range = 0; range < rules_.ranges && !{off}; ++range) assign(range);\n  }\n}\n\nvoid Scheduler::lost"),
    ("the partner takes over without a new term", I, "server/placement.cpp", "Term(before.value + 1)};\n", "Term(before.value + ({off} ? 0 : 1))};\n"),
    ("workers keep an older directory", I, "server/worker.cpp", "  if (order(lease.directory) > order(directory_)) directory_", "  if (order(lease.directory) > order(directory_) && (!{off} || directory_.primaries.empty())) directory_"),
    ("a new scheduler is not asked", I, "server/worker.cpp", "  scheduler_ = from;\n  if (is_new && state_", "  if (!{off} || !scheduler_) scheduler_ = from;\n  if (is_new && state_"),
]

mutation.main(MUTANTS)
