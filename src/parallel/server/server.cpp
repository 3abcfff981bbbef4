// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/server.hpp>

namespace distdl::parallel::server {

Server::Server(const Rules& rules, Node self, const std::vector<Holders>& placement) : rules_(rules) {
  check(rules);
  for (int range = 0; range < static_cast<int>(placement.size()); ++range) {
    const Holders& holders = placement[static_cast<std::size_t>(range)];
    if (holders.primary != self && holders.partner != self) continue;
    Hosted hosted(RangeCopy(range, rules), holders.term);
    hosted.is_primary = holders.primary == self;
    if (hosted.is_primary) hosted.partner = holders.partner;
    hosted_.emplace(range, std::move(hosted));
  }
}

void Server::receive(Node from, const Message& message) {
  check(rules_, message);
  std::visit([&](const auto& of_its_kind) { handle(from, of_its_kind); }, message);
}

Server::Hosted* Server::primary_of(int range) {
  const auto found = hosted_.find(range);
  return found != hosted_.end() && found->second.is_primary ? &found->second : nullptr;
}

void Server::handle(Node from, const Pull& pull) {
  Hosted* hosted = primary_of(pull.range);
  if (!hosted || lost_.contains(from)) return;  // the worker asks the scheduler for the primary at its next tick
  if (pull.piece > 0) return read_piece(from, pull, *hosted);
  if (answer(from, pull, *hosted)) return;
  Pull& waiting = hosted->pulls[from];
  if (waiting.lease <= pull.lease) waiting = pull;
}

bool Server::answer(Node worker, const Pull& pull, Hosted& hosted) {
  const auto version = hosted.copy.pin(worker, pull.lease, pull.microbatch, actions_);
  const bool is_there = hosted.copy.is_committed(pull.microbatch);
  if (!version && !is_there) return false;
  send(worker, Pulled{pull.range, pull.lease, 0, version, version ? hosted.copy.complete(*version) : 0, is_there});
  return true;
}

void Server::read_piece(Node worker, const Pull& pull, const Hosted& hosted) {
  Pulled pulled{pull.range, pull.lease, pull.piece, {}, 0, false};
  if (hosted.copy.has(pull.version)) {
    pulled.version = pull.version;
    pulled.complete = hosted.copy.complete(pull.version);
  }
  send(worker, pulled);
}

void Server::handle(Node from, const Push& push) {
  require<InternalError>(is_fresh(rules_, push.complete, push.microbatch),
                         "the gradient of microbatch {} in step {} was computed with parameters of {} steps, with a "
                         "staleness of {}; report this as a defect",
                         push.microbatch, rules_.step_of(push.microbatch), push.complete, rules_.staleness);
  Hosted* hosted = primary_of(push.range);
  if (!hosted) return;
  hosted->copy.release(from, push.lease, actions_);
  if (hosted->copy.is_committed(push.microbatch)) return send(from, Pushed{push.range, push.microbatch});
  hosted->pushed[push.microbatch].insert(from);
  if (hosted->copy.is_accepted(push.microbatch)) return;
  require<CommError>(push.version <= hosted->copy.newest(),
                     "a gradient of range {} was computed with version {}, but the newest one is {}: its sender is no "
                     "rank of this run",
                     push.range, push.version, hosted->copy.newest());
  const std::int64_t position = hosted->copy.accepted();
  actions_.emplace_back(Store{push.range, push.microbatch});
  hosted->copy.accept({push.microbatch, push.version});
  if (!hosted->partner) return commit(push.range, *hosted, hosted->copy.accepted());
  if (hosted->is_copied) send_updates(push.range, *hosted, position);
}

void Server::commit(int range, Hosted& hosted, std::int64_t position) {
  const auto complete = [&] { return hosted.copy.complete(hosted.copy.newest()); };
  const std::int64_t before = complete();
  for (const Microbatch microbatch : hosted.copy.commit(position, actions_)) {
    for (const Node worker : hosted.pushed[microbatch]) send(worker, Pushed{range, microbatch});
    hosted.pushed.erase(microbatch);
  }
  // Pulls wait for parameters that are fresh enough.
  if (complete() > before)
    std::erase_if(hosted.pulls, [&](const auto& pull) { return answer(pull.first, pull.second, hosted); });
}

void Server::handle(Node from, const Replicate& replicate) {
  const auto found = hosted_.find(replicate.range);
  if (found == hosted_.end() || found->second.term != replicate.term) return;  // a primary of the past, or no copy yet
  Hosted& hosted = found->second;
  if (replicate.position == hosted.copy.accepted()) {
    actions_.emplace_back(Store{replicate.range, replicate.microbatch});
    hosted.copy.accept({replicate.microbatch, replicate.version});
    commit(replicate.range, hosted, hosted.copy.accepted());  // the primary has it, too
  }
  send(from, Replicated{replicate.range, hosted.term, hosted.copy.accepted()});
}

void Server::handle(Node from, const Copy& copy) {
  const auto found = hosted_.find(copy.range);
  if (found != hosted_.end() && found->second.term > copy.term) return;
  if (found == hosted_.end() || found->second.term < copy.term) {
    actions_.emplace_back(Adopt{copy.range});
    hosted_.insert_or_assign(copy.range, Hosted(RangeCopy(copy.range, rules_, copy.state), copy.term));
  }
  send(from, Replicated{copy.range, copy.term, hosted_.at(copy.range).copy.accepted()});
}

void Server::handle(Node /*from*/, const Replicated& replicated) {
  Hosted* hosted = primary_of(replicated.range);
  if (!hosted || hosted->term != replicated.term) return;
  if (!hosted->is_copied) {
    hosted->is_copied = true;
    if (scheduler_) report(*scheduler_, replicated.range, *hosted);
    send_updates(replicated.range, *hosted, replicated.updates);
  }
  commit(replicated.range, *hosted, replicated.updates);
}

void Server::handle(Node from, const Assign& assign) {
  if (assign.leadership < leadership_) return;
  leadership_ = assign.leadership;
  scheduler_ = from;
  const auto found = hosted_.find(assign.range);
  if (found == hosted_.end() || assign.holders.term < found->second.term) return;
  Hosted& hosted = found->second;
  if (assign.holders.term > hosted.term) {
    hosted.term = assign.holders.term;
    hosted.is_primary = true;
    hosted.partner = assign.holders.partner;
    hosted.is_copied = !hosted.partner;
    if (hosted.partner)
      send_copy(assign.range, hosted);
    else
      commit(assign.range, hosted, hosted.copy.accepted());
  }
  report(from, assign.range, hosted);
}

void Server::handle(Node from, const Lead& lead) {
  if (lead.leadership < leadership_) return;
  leadership_ = lead.leadership;
  scheduler_ = from;
  Inventory inventory{lead.leadership, lead.round, {}};
  for (const auto& [range, hosted] : hosted_)
    inventory.ranges.push_back(
        {range, hosted.term, hosted.is_primary, hosted.partner, hosted.is_copied, hosted.copy.committed()});
  send(from, std::move(inventory));
}

void Server::tick() {
  for (const auto& [range, hosted] : hosted_) {
    if (!hosted.is_primary || !hosted.partner) continue;
    if (hosted.is_copied)
      send_updates(range, hosted, hosted.copy.committed().size());
    else
      send_copy(range, hosted);
  }
}

void Server::lost(Node node) {
  lost_.insert(node);
  for (auto& [range, hosted] : hosted_) {
    hosted.copy.release(node, actions_);
    hosted.pulls.erase(node);
    for (auto& [microbatch, workers] : hosted.pushed) workers.erase(node);
  }
}

void Server::send_copy(int range, const Hosted& hosted) {
  send(*hosted.partner, Copy{range, hosted.term, hosted.copy.state()});
}

void Server::send_updates(int range, const Hosted& hosted, std::int64_t from) {
  const std::int64_t committed = hosted.copy.committed().size();
  for (std::int64_t position = std::max(from, committed); position < hosted.copy.accepted(); ++position) {
    const RangeCopy::Update& update = hosted.copy.log()[static_cast<std::size_t>(position - committed)];
    send(*hosted.partner, Replicate{range, hosted.term, position, update.microbatch, update.version});
  }
}

void Server::report(Node to, int range, const Hosted& hosted) {
  send(to, Holding{range, hosted.term, hosted.is_copied});
}

}  // namespace distdl::parallel::server
