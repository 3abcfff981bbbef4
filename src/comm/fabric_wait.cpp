// SPDX-License-Identifier: Apache-2.0
// Waits: bounded, and each failure names whom it waited for.
#include <algorithm>
#include <set>

#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/comm/fabric.hpp>

namespace distdl::comm {
namespace {

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Clock::duration Fabric::timeout() const {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
}

void Fabric::wait(Batch& batch, const Operation& operation, Clock::duration timeout) {
  require<CommError>(worker_ && !closed_, "{}: the communicator is closed", to_string(operation));
  waiting_ = {&batch, &operation};
  const auto start = Clock::now();
  idle_.restart();
  do {
    const bool progressed = progress();
    if (batch.done()) break;
    if (const auto lost = find_loss(batch)) fail(batch, operation, *lost);
    if (progressed)
      idle_.restart();
    else
      idle_.pause();
    const auto waited = Clock::now() - start;
    if (waited > timeout) find_culprit(batch, operation, seconds(waited), timeout);
  } while (!batch.done());
  waiting_ = {};
  check_transfers(batch, operation);
}

bool Fabric::progress() {
  const unsigned count = ucp_worker_progress(worker_.get());
  read_notices();
  mark_ended();
  return count > 0;
}

bool Fabric::is_lost(Rank rank) const {
  return std::any_of(losses_.begin(), losses_.end(), [&](const Loss& loss) { return loss.rank == rank; });
}

Fabric::Loss Fabric::mark_lost(Rank rank, Evidence evidence, const std::string& why, ExitCode code) {
  require<CommError>(rank.value >= 0 && rank.value < size(), "a notice of the loss of rank {} of {}", rank, size());
  idle_.unwatch(rank);
  return losses_.emplace_back(Loss{rank, evidence, why, code});
}

/// A process that stopped on purpose has told why: read what it left before it counts as dead without a word.
void Fabric::mark_ended() {
  for (Rank rank : idle_.take_ended()) {
    while (ucp_worker_progress(worker_.get()) > 0) read_notices();
    read_notices();
    mark_lost(rank, Evidence::certain, fmt::format("the process of {} ended (pid {})", name(rank), card_of(rank).pid));
  }
}

bool Fabric::matters(const Loss& loss, const Batch& batch) const {
  if (!closing_down_) return true;
  return std::any_of(batch.transfers_.begin(), batch.transfers_.end(), [&](const auto& transfer) {
    return transfer.peer == loss.rank && transfer.direction == Batch::Direction::receive && transfer.request;
  });
}

std::optional<Fabric::Loss> Fabric::find_loss(const Batch& batch) const {
  for (auto evidence : {Evidence::certain, Evidence::broken_connection})
    for (const Loss& loss : losses_)
      if (loss.evidence == evidence && matters(loss, batch)) return loss;
  return std::nullopt;
}

void Fabric::check_transfers(Batch& batch, const Operation& operation) {
  for (const auto& transfer : batch.transfers_) {
    const bool receives = transfer.direction == Batch::Direction::receive;
    if (transfer.status == UCS_ERR_MESSAGE_TRUNCATED ||
        (transfer.status == UCS_OK && receives && transfer.received != transfer.size))
      throw CommError(
          fmt::format("{}: {} sent {} bytes, expected {}: all ranks must call the same operation with the same sizes",
                      to_string(operation), name(transfer.peer), transfer.received, transfer.size));
    if (transfer.status == UCS_OK || (closing_down_ && !receives)) continue;
    const Loss broken =
        mark_lost(transfer.peer, Evidence::broken_connection,
                  fmt::format("the connection to {} broke ({})", name(transfer.peer), ucx_text(transfer.status)));
    fail(batch, operation, find_loss(batch).value_or(broken));
  }
  batch.transfers_.clear();
}

void Fabric::fail(Batch& batch, const Operation& operation, const Loss& loss) {
  waiting_ = {};
  if (loss.rank != self_) tell_all(loss.rank, loss.why, loss.code);
  cancel(batch);
  throw PeerLost(loss.rank, card_of(loss.rank).host, fmt::format("{}: {}", to_string(operation), loss.why), loss.code);
}

/// Ranks that the batch waits for; those it receives from first.
std::vector<Rank> Fabric::awaited(const Batch& batch) const {
  std::vector<Rank> ranks;
  for (auto direction : {Batch::Direction::receive, Batch::Direction::send})
    for (const auto& transfer : batch.transfers_)
      if (transfer.request && transfer.direction == direction &&
          std::find(ranks.begin(), ranks.end(), transfer.peer) == ranks.end())
        ranks.push_back(transfer.peer);
  return ranks;
}

/// Asks and returns those that gave no answer. Returns early when the batch is done after all.
std::vector<Rank> Fabric::ask(const std::vector<Rank>& suspects, const Batch& batch, const Deadline& deadline) {
  for (Rank rank : suspects) {
    peers_[rank.value].answer.reset();
    tell(rank, {Notice::Kind::ask, self_, rank, ""});
  }
  std::vector<Rank> silent = suspects;
  while (!silent.empty() && !batch.done() && !find_loss(batch) && !deadline.expired()) {
    if (progress())
      idle_.restart();
    else
      idle_.pause();
    std::erase_if(silent, [this](Rank rank) { return peers_[rank.value].answer.has_value(); });
  }
  return silent;
}

/// The time is over. The rank waited for may itself wait for another: follow the chain to the one that does not answer.
void Fabric::find_culprit(Batch& batch, const Operation& operation, double waited, Clock::duration timeout) {
  const auto patience = std::clamp<Clock::duration>(timeout / 4, Milliseconds(50), Milliseconds(500));
  std::vector<Rank> suspects = awaited(batch);
  std::set<Rank> asked{self_};
  std::string chain = fmt::format("waited {:.1f} s for ", waited);
  while (true) {
    const auto silent = ask(suspects, batch, Deadline::after(patience));
    if (batch.done()) return;
    if (const auto lost = find_loss(batch)) fail(batch, operation, *lost);
    if (!silent.empty()) {
      std::string names;
      for (Rank rank : silent) names += (names.empty() ? "" : ", ") + name(rank);
      fail(batch, operation,
           mark_lost(silent.front(), Evidence::certain,
                     fmt::format("{}{}, which does not answer: it hangs, is stopped, is too busy, or its node or "
                                 "network is down",
                                 chain, names)));
    }
    const Rank suspect = suspects.front();
    const Notice answer = *peers_[suspect.value].answer;
    chain += fmt::format("{}, which in {} waits for ", name(suspect), answer.text);
    if (!asked.insert(answer.subject).second)
      fail(batch, operation,
           mark_lost(suspect, Evidence::certain,
                     fmt::format("{}{}: the ranks do not call the same operations in the same order", chain,
                                 name(answer.subject))));
    suspects = {answer.subject};
  }
}

}  // namespace distdl::comm
