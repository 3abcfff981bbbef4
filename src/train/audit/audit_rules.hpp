// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>

// The rules of an audit (docs/recovery.md, "Silent corruption"), without messages or gradients: who recomputes what,
// and who is wrong.
namespace distdl::train {

/// Whether the state after `step` steps is audited, before the next one.
inline bool audit_is_due(std::int64_t every, Step step) {
  return every > 0 && step.value % every == 0;
}

/// The parts of the model that ranks hold which compute a microbatch together: one number for each of these ranks, in
/// their order. Ranks with the same number hold the same part, and have the same state.
std::vector<int> audited_parts(const parallel::Degrees& degrees);

/// The ranks that recompute microbatches of each other in an audit. A pure function of the number of the audit, so that
/// all ranks agree.
struct AuditPairs {
  std::vector<int> parts{0};    ///< part of each of the ranks that compute a microbatch together
  std::vector<int> microbatch;  ///< for each rank: its own microbatch that another one recomputes; index in the step
  std::vector<int> checks;      ///< for each rank: the rank whose microbatch it recomputes; itself if there is no other

  int together() const { return static_cast<int>(parts.size()); }
  int group_of(int rank) const { return rank / together(); }
  int part_of(int rank) const { return parts[static_cast<std::size_t>(rank % together())]; }
};
/// `audit`: step / train.audit_every. Each rank checks another one, over time each other one in turn, and over time all
/// of its microbatches. The plan has a microbatch for each group of as many ranks as `parts`, which repeats that of
/// another group together: its ranks then have the same gradients as those of the other group with the same parts.
AuditPairs audit_pairs(const parallel::MicrobatchPlan& plan, std::int64_t audit, std::vector<int> parts = {0});

/// The microbatch of another rank that `self` recomputes in the step after `step`, if any. If ranks compute
/// microbatches together, `self` is the number of their group.
std::optional<int> recomputed_microbatch(const parallel::MicrobatchPlan& plan, std::int64_t every, Rank self,
                                         Step step);

/// The checksums that a rank found in one round of an audit.
struct AuditAnswer {
  static constexpr std::size_t kOwn = 0, kRecomputed = 1;
  std::vector<std::uint32_t> state;  ///< one for each arena of the state
  /// First round: checksums of its own microbatch (kOwn) and of the one that it recomputed (kRecomputed); empty if only
  /// states are audited. Second round: checksums of all disputed microbatches.
  std::vector<std::uint32_t> gradients;
};
std::string to_text(const AuditAnswer& answer);
/// Throws CommError if to_text() did not make the text.
AuditAnswer audit_answer_from(const std::string& text);

/// The findings of the first round.
struct AuditFindings {
  std::vector<int> wrong;  ///< ranks whose state is not that of most ranks with the same part
  std::vector<int> split;  ///< parts whose states differ, and no state is that of most ranks
  /// Ranks of whose microbatch another rank found other gradients, one of each group; at most kMostDisputed.
  std::vector<int> disputed;

  static constexpr std::size_t kMostDisputed = 4;
  bool passed() const { return wrong.empty() && split.empty() && disputed.empty(); }
  /// True if a second round has to find the ranks that are wrong.
  bool is_open() const { return !split.empty() || !disputed.empty(); }
};
AuditFindings findings_of(const AuditPairs& pairs, const std::vector<AuditAnswer>& first);

struct AuditVerdict {
  std::vector<int> wrong;  ///< ranks, ascending; empty: the audit passed
  bool is_certain = true;  ///< false: at least one of these ranks is wrong, but it is unknown which
  std::string reason;      ///< "rank 1: other parameters or moments than most ranks have"
};
/// `second`: of the second round, in which each rank takes the checksums of its state again and recomputes the disputed
/// microbatches; empty if there was none. What most ranks found is right. Without a majority (there are two ranks), who
/// found something else than in the first round is wrong; if that does not tell, both are named. Of a group whose ranks
/// hold parts of the model all are named, and nothing is certain: what one gets wrong goes through the others.
AuditVerdict verdict_of(const AuditPairs& pairs, const AuditFindings& findings, const std::vector<AuditAnswer>& first,
                        const std::vector<AuditAnswer>& second);

/// Whether a rank ends with ExitCode::corruption: agents leave out the nodes whose ranks do so, unless most nodes have
/// such ranks. `nodes`: how many have ranks in `verdict.wrong`. Where nothing tells which of several nodes is wrong,
/// all ranks do.
bool ends_as_wrong(const AuditVerdict& verdict, std::size_t nodes, int rank);

}  // namespace distdl::train
