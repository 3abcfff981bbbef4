// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/parallel/server/range_copy.hpp>

namespace distdl::parallel::server {

RangeCopy::RangeCopy(int range, const Rules& rules) : range_(range), rules_(&rules), versions_{{Version(0), {}}} {}

RangeCopy::RangeCopy(int range, const Rules& rules, const RangeState& state)
    : range_(range), rules_(&rules), committed_(state.committed) {
  for (std::size_t i = 0; i < state.versions.size(); ++i) versions_[state.versions[i]] = {state.complete[i]};
}

bool RangeCopy::is_accepted(Microbatch microbatch) const {
  return is_committed(microbatch) || in_log_.contains(microbatch);
}

void RangeCopy::accept(const Update& update) {
  log_.push_back(update);
  in_log_.insert(update.microbatch);
}

std::vector<Microbatch> RangeCopy::commit(std::int64_t position, Actions& actions) {
  std::vector<Microbatch> done;
  const Version before = newest();
  while (!log_.empty() && committed_.size() < position) {
    const Update update = log_.front();
    log_.pop_front();
    in_log_.erase(update.microbatch);
    committed_.add(update.microbatch);
    apply(update, actions);
    done.push_back(update.microbatch);
  }
  // The other versions stay for their readers.
  if (!done.empty())
    for (Version version(before.value - 1); version < newest(); ++version.value) forget_unread(version, actions);
  return done;
}

void RangeCopy::apply(const Update& update, Actions& actions) {
  const std::int64_t complete = committed_.below().value / rules_->microbatches;
  const Version next(newest().value + 1);
  if (rules_->mode != Mode::synchronous) {
    actions.emplace_back(Apply{range_, next, {update.microbatch}, newest().value - update.version.value});
  } else {
    if (complete < next.value) return;
    Apply step{range_, next, {}, 0};
    for (std::int64_t i = 0; i < rules_->microbatches; ++i)
      step.microbatches.emplace_back(newest().value * rules_->microbatches + i);
    actions.emplace_back(std::move(step));
  }
  versions_[next] = {complete};
  if (rules_->mode == Mode::synchronous && rules_->has_partners) actions.emplace_back(Keep{range_, next});
}

std::optional<Version> RangeCopy::version_for(Microbatch microbatch) const {
  if (rules_->mode == Mode::synchronous) {
    const Version exact(rules_->step_of(microbatch));
    return has(exact) ? std::optional(exact) : std::nullopt;
  }
  return is_fresh(*rules_, complete(newest()), microbatch) ? std::optional(newest()) : std::nullopt;
}

std::optional<Version> RangeCopy::pin(Node worker, const LeaseId& lease, Microbatch microbatch, Actions& actions) {
  const auto found = pins_.find(worker);
  if (found != pins_.end() && lease <= found->second.lease)
    return lease == found->second.lease ? std::optional(found->second.version) : std::nullopt;
  const auto version = version_for(microbatch);
  if (!version) return {};
  ++versions_.at(*version).readers;
  release(worker, actions);
  pins_[worker] = {lease, *version};
  return version;
}

void RangeCopy::release(Node worker, const LeaseId& upto, Actions& actions) {
  const auto found = pins_.find(worker);
  if (found != pins_.end() && found->second.lease <= upto) release(worker, actions);
}

void RangeCopy::release(Node worker, Actions& actions) {
  const auto found = pins_.find(worker);
  if (found == pins_.end()) return;
  const Version version = found->second.version;
  pins_.erase(found);
  --versions_.at(version).readers;
  forget_unread(version, actions);
}

bool RangeCopy::is_kept(Version version) const {
  if (version == newest()) return true;
  // The version before, until an update of the newest step is there: that one shows that all ranges have the newest
  // version. Before that, a worker may have to compute a gradient of the last step again, for other ranges.
  return rules_->mode == Mode::synchronous && version.value == newest().value - 1 &&
         committed_.size() == newest().value * rules_->microbatches;
}

void RangeCopy::forget_unread(Version version, Actions& actions) {
  const auto found = versions_.find(version);
  if (found == versions_.end() || is_kept(version) || found->second.readers > 0) return;
  versions_.erase(found);
  actions.emplace_back(Forget{range_, version});
}

RangeState RangeCopy::state() const {
  RangeState state{committed_, {}, {}};
  for (const auto& [version, readable] : versions_) {
    if (!is_kept(version)) continue;
    state.versions.push_back(version);
    state.complete.push_back(readable.complete);
  }
  return state;
}

}  // namespace distdl::parallel::server
