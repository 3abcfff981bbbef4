// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/audit.hpp>

namespace distdl::train {
namespace {
/// What more than half of the values are.
template <class Value>
std::optional<Value> majority_of(const std::vector<Value>& values) {
  std::map<Value, std::size_t> counts;
  for (const Value& value : values)
    if (2 * ++counts[value] > values.size()) return value;
  return std::nullopt;
}

std::vector<std::vector<std::uint32_t>> states_of(const std::vector<AuditAnswer>& answers) {
  std::vector<std::vector<std::uint32_t>> states;
  states.reserve(answers.size());
  for (const AuditAnswer& answer : answers) states.push_back(answer.state);
  return states;
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

void accuse_of_state(Accused& accused, const AuditFindings& findings, const std::vector<AuditAnswer>& first,
                     const std::vector<AuditAnswer>& second) {
  accused.name({findings.wrong.begin(), findings.wrong.end()}, true,
               "other parameters or moments than most ranks have");
  if (!findings.is_split) return;
  std::set<int> all, changed;
  for (int r = 0; r < static_cast<int>(first.size()); ++r) {
    all.insert(r);
    if (first[r].state != second[r].state) changed.insert(r);
  }
  if (!changed.empty() && changed.size() < all.size())
    accused.name(changed, true, "other parameters or moments at each look");
  else
    accused.name(all, false, "different parameters or moments");
}

/// Of the microbatch of the group of rank `owner`, which is the `index`-th disputed one.
class DisputedGradients {
 public:
  DisputedGradients(const AuditPairs& pairs, int owner, std::size_t index, const std::vector<AuditAnswer>& first,
                    const std::vector<AuditAnswer>& second)
      : together_(pairs.together),
        owners_(group_of(owner)),
        checkers_(group_of(static_cast<int>(std::ranges::find(pairs.checks, owner) - pairs.checks.begin()))),
        index_(index),
        first_(first),
        second_(second) {}

  void accuse(Accused& accused) const {
    std::vector<std::uint32_t> found;
    for (int r = 0; r < ranks(); ++r)
      if (!is_with_accused(accused, r)) found.push_back(again(r));
    if (const auto right = majority_of(found)) return accuse_others(accused, *right);
    std::set<int> changed, all;
    for (int r = 0; r < ranks(); ++r) {
      if (group_of(r) != owners_ && group_of(r) != checkers_) continue;
      all.insert(r);
      if (before(r) != again(r)) changed.insert(r);
    }
    if (!changed.empty() && group_of(*changed.begin()) == group_of(*changed.rbegin()))
      return accused.name(changed, changed.size() == 1, "other gradients each time");
    accused.name(all, false, "different gradients of the same microbatch");
  }

 private:
  int ranks() const { return static_cast<int>(second_.size()); }
  int group_of(int rank) const { return rank / together_; }
  std::uint32_t again(int rank) const { return second_[rank].gradients[index_]; }
  std::uint32_t before(int rank) const {
    return first_[rank].gradients[group_of(rank) == owners_ ? AuditAnswer::kOwn : AuditAnswer::kRecomputed];
  }
  bool is_with_accused(const Accused& accused, int rank) const {
    for (int r = group_of(rank) * together_; r < (group_of(rank) + 1) * together_; ++r)
      if (accused.contains(r)) return true;
    return false;
  }
  void accuse_others(Accused& accused, std::uint32_t right) const {
    std::set<int> wrong;
    for (int r = 0; r < ranks(); ++r)
      if (!is_with_accused(accused, r) &&
          (again(r) != right || (group_of(r) == owners_ && first_[r].gradients[AuditAnswer::kOwn] != right) ||
           (group_of(r) == checkers_ && first_[r].gradients[AuditAnswer::kRecomputed] != right)))
        wrong.insert(r);
    const bool several = std::ranges::adjacent_find(wrong, {}, [this](int r) { return group_of(r); }) != wrong.end();
    accused.name(wrong, !several, "other gradients than most ranks compute");
  }

  int together_, owners_, checkers_;
  std::size_t index_;
  const std::vector<AuditAnswer>&first_, &second_;
};
}  // namespace

AuditPairs audit_pairs(const parallel::MicrobatchPlan& plan, std::int64_t audit, int together) {
  const auto groups = static_cast<int>(plan.ranges.size());
  const std::int64_t others = std::max(1, groups - 1);
  AuditPairs pairs{together, {}, {}};
  for (int r = 0; r < groups * together; ++r) {
    const int group = r / together;
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
  const auto states = states_of(first);
  if (const auto right = majority_of(states)) {
    for (int r = 0; r < static_cast<int>(states.size()); ++r)
      if (states[r] != *right) findings.wrong.push_back(r);
  } else {
    findings.is_split = true;  // gradients differ too, which says nothing more
    return findings;
  }
  const auto group_of = [&](int rank) { return rank / pairs.together; };
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
  accuse_of_state(accused, findings, first, second);
  for (std::size_t i = 0; i < findings.disputed.size(); ++i)
    DisputedGradients(pairs, findings.disputed[i], i, first, second).accuse(accused);
  return accused.verdict();
}

}  // namespace distdl::train
