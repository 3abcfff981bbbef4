// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/audit/audit_rules.hpp>

namespace distdl::train {
namespace {
/// The value that more than half of the elements have; nothing if there is none.
template <class Value>
std::optional<Value> majority_of(const std::vector<Value>& values) {
  std::map<Value, std::size_t> counts;
  for (const Value& value : values)
    if (2 * ++counts[value] > values.size()) return value;
  return std::nullopt;
}

/// The ranks that hold this part, of all ranks.
std::vector<int> ranks_with(const AuditPairs& pairs, int part, std::size_t ranks) {
  std::vector<int> some;
  for (int r = 0; r < static_cast<int>(ranks); ++r)
    if (pairs.part_of(r) == part) some.push_back(r);
  return some;
}

std::set<int> parts_of(const AuditPairs& pairs) {
  return {pairs.parts.begin(), pairs.parts.end()};
}

std::string named(const std::set<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// The ranks that are wrong, while they are being found.
class Accused {
 public:
  void name(std::set<int> ranks, bool is_certain, const std::string& deed) {
    std::erase_if(ranks, [this](int rank) { return all_.contains(rank); });
    if (ranks.empty()) return;
    verdict_.reason += fmt::format("{}{}: {}{}", verdict_.reason.empty() ? "" : "; ", named(ranks), deed,
                                   is_certain ? "" : ", and nothing tells which of them is right");
    verdict_.is_certain = verdict_.is_certain && is_certain;
    all_.insert(ranks.begin(), ranks.end());
  }
  bool contains(int rank) const { return all_.contains(rank); }
  AuditVerdict verdict() {
    verdict_.wrong.assign(all_.begin(), all_.end());
    return verdict_;
  }

 private:
  AuditVerdict verdict_;
  std::set<int> all_;
};

void accuse_of_state(Accused& accused, const AuditPairs& pairs, const AuditFindings& findings,
                     const std::vector<AuditAnswer>& first, const std::vector<AuditAnswer>& second) {
  accused.name({findings.wrong.begin(), findings.wrong.end()}, true,
               "other parameters or moments than most ranks have");
  for (const int part : findings.split) {
    const auto ranks = ranks_with(pairs, part, first.size());
    std::set<int> changed;
    for (const int r : ranks)
      if (first[r].state != second[r].state) changed.insert(r);
    if (!changed.empty() && changed.size() < ranks.size())
      accused.name(changed, true, "other parameters or moments at each look");
    else
      accused.name({ranks.begin(), ranks.end()}, false, "different parameters or moments");
  }
}

/// The gradients of the `index`-th disputed microbatch, which belongs to the group of rank `owner`.
class DisputedGradients {
 public:
  DisputedGradients(const AuditPairs& pairs, int owner, std::size_t index, const std::vector<AuditAnswer>& first,
                    const std::vector<AuditAnswer>& second)
      : pairs_(pairs),
        has_parts_(parts_of(pairs).size() > 1),
        owners_(pairs.group_of(owner)),
        checkers_(pairs.group_of(static_cast<int>(std::ranges::find(pairs.checks, owner) - pairs.checks.begin()))),
        index_(index),
        first_(first),
        second_(second) {}

  void accuse(Accused& accused) const {
    if (const auto right = majorities(accused)) return accuse_others(accused, *right);
    std::set<int> changed, all;
    for (int r = 0; r < ranks(); ++r) {
      if (pairs_.group_of(r) != owners_ && pairs_.group_of(r) != checkers_) continue;
      all.insert(r);
      if (before(r) != again(r)) changed.insert(r);
    }
    if (!changed.empty() && pairs_.group_of(*changed.begin()) == pairs_.group_of(*changed.rbegin()))
      return accused.name(suspects(changed), changed.size() == 1 && !has_parts_, "other gradients each time");
    accused.name(all, false, "different gradients of the same microbatch");
  }

 private:
  int ranks() const { return static_cast<int>(second_.size()); }
  std::uint32_t again(int rank) const { return second_[rank].gradients[index_]; }
  std::uint32_t before(int rank) const {
    return first_[rank].gradients[pairs_.group_of(rank) == owners_ ? AuditAnswer::kOwn : AuditAnswer::kRecomputed];
  }
  bool is_with_accused(const Accused& accused, int rank) const {
    const int begin = pairs_.group_of(rank) * pairs_.together();
    for (int r = begin; r < begin + pairs_.together(); ++r)
      if (accused.contains(r)) return true;
    return false;
  }
  /// The checksum that most ranks found for each part; nothing if some part has no majority.
  std::optional<std::map<int, std::uint32_t>> majorities(const Accused& accused) const {
    std::map<int, std::uint32_t> right;
    for (const int part : parts_of(pairs_)) {
      std::vector<std::uint32_t> found;
      for (const int r : ranks_with(pairs_, part, second_.size()))
        if (!is_with_accused(accused, r)) found.push_back(again(r));
      const auto most = majority_of(found);
      if (!most) return std::nullopt;
      right[part] = *most;
    }
    return right;
  }
  /// The ranks that may be wrong. If ranks hold parts of the model, these are all ranks of the groups, because the
  /// wrong values of a rank enter the results of the ranks with other parts.
  std::set<int> suspects(const std::set<int>& wrong) const {
    if (!has_parts_) return wrong;
    std::set<int> all;
    for (const int rank : wrong)
      for (int i = 0; i < pairs_.together(); ++i) all.insert(pairs_.group_of(rank) * pairs_.together() + i);
    return all;
  }
  void accuse_others(Accused& accused, const std::map<int, std::uint32_t>& right) const {
    std::set<int> wrong;
    for (int r = 0; r < ranks(); ++r) {
      if (is_with_accused(accused, r)) continue;
      const auto expected = right.at(pairs_.part_of(r));
      const int group = pairs_.group_of(r);
      if (again(r) != expected || (group == owners_ && first_[r].gradients[AuditAnswer::kOwn] != expected) ||
          (group == checkers_ && first_[r].gradients[AuditAnswer::kRecomputed] != expected))
        wrong.insert(r);
    }
    const auto group_of = [this](int rank) { return pairs_.group_of(rank); };
    const bool several = std::ranges::adjacent_find(wrong, {}, group_of) != wrong.end();
    accused.name(suspects(wrong), !several && !has_parts_, "other gradients than most ranks compute");
  }

  const AuditPairs& pairs_;
  bool has_parts_;
  int owners_, checkers_;
  std::size_t index_;
  const std::vector<AuditAnswer>&first_, &second_;
};
}  // namespace

std::vector<int> audited_parts(const parallel::Degrees& degrees) {
  std::vector<int> parts;
  for (int stage = 0; stage < degrees.pipeline; ++stage)
    for (int context = 0; context < degrees.context; ++context)
      for (int tensor = 0; tensor < degrees.tensor; ++tensor) parts.push_back(stage * degrees.tensor + tensor);
  return parts;
}

AuditPairs audit_pairs(const parallel::MicrobatchPlan& plan, std::int64_t audit, std::vector<int> parts) {
  const auto groups = static_cast<int>(plan.ranges.size());
  const std::int64_t others = std::max(1, groups - 1);
  AuditPairs pairs{std::move(parts), {}, {}};
  const int together = pairs.together();
  for (int r = 0; r < groups * together; ++r) {
    const int group = pairs.group_of(r);
    const comm::LeafRange& range = plan.ranges[static_cast<std::size_t>(group)];
    const auto checked = groups == 1 ? 0 : static_cast<int>((group + 1 + audit % others) % groups);
    pairs.microbatch.push_back(range.first + static_cast<int>(audit / others % range.count));
    pairs.checks.push_back(checked * together + r % together);
  }
  return pairs;
}

std::optional<int> recomputed_microbatch(const parallel::MicrobatchPlan& plan, std::int64_t every, Rank self,
                                         Step step) {
  if (!audit_is_due(every, step) || plan.ranges.size() == 1) return std::nullopt;
  const AuditPairs pairs = audit_pairs(plan, step.value / every);
  return pairs.microbatch.at(static_cast<std::size_t>(pairs.checks.at(static_cast<std::size_t>(self.value))));
}

std::string to_text(const AuditAnswer& answer) {
  std::vector<std::uint32_t> numbers{static_cast<std::uint32_t>(answer.state.size())};
  numbers.insert(numbers.end(), answer.state.begin(), answer.state.end());
  numbers.insert(numbers.end(), answer.gradients.begin(), answer.gradients.end());
  std::string text(numbers.size() * sizeof(std::uint32_t), '\0');
  std::memcpy(text.data(), numbers.data(), text.size());
  return text;
}

AuditAnswer audit_answer_from(const std::string& text) {
  std::vector<std::uint32_t> numbers(text.size() / sizeof(std::uint32_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof(std::uint32_t));
  require<CommError>(!numbers.empty() && numbers[0] < numbers.size() && text.size() % sizeof(std::uint32_t) == 0,
                     "a rank sent {} bytes, which are no answer in an audit", text.size());
  const auto middle = numbers.begin() + 1 + numbers[0];
  return {{numbers.begin() + 1, middle}, {middle, numbers.end()}};
}

AuditFindings findings_of(const AuditPairs& pairs, const std::vector<AuditAnswer>& first) {
  AuditFindings findings;
  for (const int part : parts_of(pairs)) {
    const auto ranks = ranks_with(pairs, part, first.size());
    std::vector<std::vector<std::uint32_t>> states;
    states.reserve(ranks.size());
    for (const int r : ranks) states.push_back(first[r].state);
    const auto right = majority_of(states);
    if (!right) findings.split.push_back(part);
    for (const int r : ranks)
      if (right && first[r].state != *right) findings.wrong.push_back(r);
  }
  std::ranges::sort(findings.wrong);
  if (!findings.split.empty()) return findings;  // gradients differ too, which says nothing more
  const auto group_of = [&](int rank) { return pairs.group_of(rank); };
  const auto is_wrong = [&](int rank) {
    return std::ranges::find(findings.wrong, group_of(rank), group_of) != findings.wrong.end();
  };
  for (int r = 0; r < static_cast<int>(first.size()); ++r) {
    const int owner = pairs.checks[r];
    if (is_wrong(r) || is_wrong(owner) || first[r].gradients.empty() || first[owner].gradients.empty()) continue;
    if (first[r].gradients[AuditAnswer::kRecomputed] == first[owner].gradients[AuditAnswer::kOwn]) continue;
    const bool is_known = std::ranges::find(findings.disputed, group_of(owner), group_of) != findings.disputed.end();
    if (!is_known && findings.disputed.size() < AuditFindings::kMostDisputed) findings.disputed.push_back(owner);
  }
  return findings;
}

bool ends_as_wrong(const AuditVerdict& verdict, std::size_t nodes, int rank) {
  return (!verdict.is_certain && nodes > 1) || std::ranges::binary_search(verdict.wrong, rank);
}

AuditVerdict verdict_of(const AuditPairs& pairs, const AuditFindings& findings, const std::vector<AuditAnswer>& first,
                        const std::vector<AuditAnswer>& second) {
  Accused accused;
  accuse_of_state(accused, pairs, findings, first, second);
  for (std::size_t i = 0; i < findings.disputed.size(); ++i)
    DisputedGradients(pairs, findings.disputed[i], i, first, second).accuse(accused);
  return accused.verdict();
}

}  // namespace distdl::train
