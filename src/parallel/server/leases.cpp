// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/parallel/server/leases.hpp>

namespace distdl::parallel::server {

Leases::Leases(const Rules& rules, Leadership leadership, MicrobatchSet done)
    : rules_(&rules),
      leadership_(leadership),
      done_(std::move(done)),
      end_(rules.total()),
      begun_((done_.end().value + rules.microbatches - 1) / rules.microbatches),
      next_(done_.below()) {}

void Leases::end_soon() {
  end_ = std::min(end_, std::max<std::int64_t>(begun_, 1) * rules_->microbatches);
}

std::optional<Leases::Given> Leases::answer(Node worker, const Ask& ask) {
  if (ask.is_done) done(ask.microbatch);
  const auto found = records_.find(worker);
  if (found != records_.end()) {
    if (ask.lease < found->second.given.id) return found->second.given;  // it was lost on its way
    if (done_.contains(found->second.given.microbatch)) give_back(found->second);
  }
  const auto free = first_free();
  if (ask.phase != Phase::idle && !done_.contains(ask.microbatch)) {
    const bool waits_for_earlier = ask.phase == Phase::pulling && free && *free < ask.microbatch;
    if (!waits_for_earlier) {
      const Given given{ask.lease, ask.microbatch};
      if (found == records_.end()) hold(worker, given);  // from an earlier scheduler
      return given;
    }
  }
  if (!free) return {};
  const Given given{{leadership_, ++number_}, *free};
  hold(worker, given);
  return given;
}

void Leases::hold(Node worker, const Given& given) {
  Record& record = records_[worker];
  give_back(record);
  record = {given, true, 0};
  begun_ = std::max(begun_, rules_->step_of(given.microbatch) + 1);
  active_.insert(given.microbatch);
  returned_.erase(given.microbatch);
}

void Leases::give_back(Record& record) {
  if (!record.is_active) return;
  const Microbatch microbatch = record.given.microbatch;
  active_.erase(active_.find(microbatch));
  record.is_active = false;
  if (microbatch < next_ && !active_.contains(microbatch) && !done_.contains(microbatch)) returned_.insert(microbatch);
}

void Leases::done(Microbatch microbatch) {
  done_.add(microbatch);
  returned_.erase(microbatch);
}

std::optional<Microbatch> Leases::first_free() {
  // One step more than can be computed now, so that workers ask before they have to wait.
  const std::int64_t ahead = rules_->mode == Mode::asynchronous
                                 ? end_
                                 : (rules_->step_of(done_.below()) + rules_->staleness + 2) * rules_->microbatches;
  while (next_.value < end_ && (done_.contains(next_) || active_.contains(next_))) ++next_.value;
  const Microbatch first = returned_.empty() ? next_ : *returned_.begin();
  return first.value < std::min(end_, ahead) ? std::optional(first) : std::nullopt;
}

void Leases::tick() {
  for (auto& [worker, record] : records_)
    if (record.is_active && ++record.ticks > rules_->late_ticks) give_back(record);
}

void Leases::lost(Node worker) {
  const auto found = records_.find(worker);
  if (found == records_.end()) return;
  give_back(found->second);
  records_.erase(found);
}

}  // namespace distdl::parallel::server
