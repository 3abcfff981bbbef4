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

/// Of the microbatch of rank `owner`, which is the `index`-th disputed one.
void accuse_of_gradients(Accused& accused, const AuditPairs& pairs, int owner, std::size_t index,
                         const std::vector<AuditAnswer>& first, const std::vector<AuditAnswer>& second) {
  const auto checker = static_cast<int>(std::ranges::find(pairs.checks, owner) - pairs.checks.begin());
  const auto before = [&](int rank) {
    return first[rank].gradients[rank == owner ? AuditAnswer::kOwn : AuditAnswer::kRecomputed];
  };
  std::vector<std::uint32_t> found;
  for (int r = 0; r < static_cast<int>(second.size()); ++r)
    if (!accused.contains(r)) found.push_back(second[r].gradients[index]);
  std::set<int> wrong, changed;
  if (const auto right = majority_of(found)) {
    for (int r = 0; r < static_cast<int>(second.size()); ++r)
      if (!accused.contains(r) && second[r].gradients[index] != *right) wrong.insert(r);
    if (before(owner) != *right) wrong.insert(owner);
    if (first[checker].gradients[AuditAnswer::kRecomputed] != *right) wrong.insert(checker);
    return accused.name(wrong, true, "other gradients than most ranks compute");
  }
  for (int r : {owner, checker})
    if (before(r) != second[r].gradients[index]) changed.insert(r);
  if (changed.size() == 1) return accused.name(changed, true, "other gradients each time");
  accused.name({owner, checker}, false, "different gradients of the same microbatch");
}
}  // namespace

AuditPairs audit_pairs(const parallel::MicrobatchPlan& plan, std::int64_t audit) {
  const auto ranks = static_cast<std::int64_t>(plan.ranges.size());
  const std::int64_t others = std::max<std::int64_t>(1, ranks - 1);
  AuditPairs pairs;
  for (std::int64_t r = 0; r < ranks; ++r) {
    const comm::LeafRange& range = plan.ranges[static_cast<std::size_t>(r)];
    pairs.microbatch.push_back(range.first + static_cast<int>(audit / others % range.count));
    pairs.checks.push_back(ranks == 1 ? 0 : static_cast<int>((r + 1 + audit % others) % ranks));
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
  const auto is_wrong = [&](int rank) { return std::ranges::binary_search(findings.wrong, rank); };
  for (int r = 0; r < static_cast<int>(first.size()); ++r) {
    const int owner = pairs.checks[r];
    if (is_wrong(r) || is_wrong(owner) || first[r].gradients.empty() || first[owner].gradients.empty()) continue;
    if (first[r].gradients[AuditAnswer::kRecomputed] == first[owner].gradients[AuditAnswer::kOwn]) continue;
    if (findings.disputed.size() < AuditFindings::kMostDisputed) findings.disputed.push_back(owner);
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
    accuse_of_gradients(accused, pairs, findings.disputed[i], i, first, second);
  return accused.verdict();
}

}  // namespace distdl::train
