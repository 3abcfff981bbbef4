// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <distdl/parallel/server/worker.hpp>

namespace distdl::parallel::server {

Worker::Worker(const Rules& rules, int first_range) : rules_(rules), first_range_(first_range) {
  check(rules);
  ranges_.resize(static_cast<std::size_t>(rules.ranges));
}

void Worker::receive(Node from, const Message& message) {
  check(rules_, message);
  if (state_ == State::finished && !std::holds_alternative<Lead>(message)) return;
  std::visit([&](const auto& of_its_kind) { handle(from, of_its_kind); }, message);
}

void Worker::handle(Node from, const Lead& lead) {
  if (lead.leadership < leadership_) return;
  const bool is_new = lead.leadership > leadership_;
  leadership_ = lead.leadership;
  scheduler_ = from;
  if (is_new && state_ == State::finished) state_ = State::done;  // the new one may lack that all is done
  if (is_new) ask();
}

void Worker::handle(Node /*from*/, const Finish& finish) {
  // Finished microbatches stay done, but a newer scheduler without that information has leased one to this worker,
  // maybe to it alone.
  if (finish.leadership >= leadership_) state_ = State::finished;
}

void Worker::handle(Node /*from*/, const Lease& lease) {
  const auto order = [](const Directory& directory) { return std::tie(directory.leadership, directory.edition); };
  if (order(lease.directory) > order(directory_)) directory_ = lease.directory;
  if (lease.id > lease_) begin(lease);
}

/// Gives up the present work: its microbatch is done, or is leased to another worker.
void Worker::begin(const Lease& lease) {
  lease_ = lease.id;
  microbatch_ = lease.microbatch;
  state_ = State::pulling;
  std::ranges::fill(ranges_, Reading{});
  for (int i = 0; i < rules_.ranges; ++i) pull((first_range_ + i) % rules_.ranges);
}

void Worker::pull(int range) {
  const auto index = static_cast<std::size_t>(range);
  const Reading& reading = ranges_[index];
  if (reading.next_piece == rules_.pieces) return;
  send(directory_.primaries[index], Pull{range, lease_, microbatch_, reading.next_piece, reading.version});
}

void Worker::handle(Node /*from*/, const Pulled& pulled) {
  if (state_ != State::pulling || pulled.lease != lease_) return;
  Reading& reading = ranges_[static_cast<std::size_t>(pulled.range)];
  if (pulled.piece != reading.next_piece) return;  // a repeated answer
  if (!pulled.version) {
    if (pulled.is_there) return done();
    ++repeated_pulls_;
    reading = {};
    return pull(pulled.range);
  }
  if (pulled.piece > 0 && *pulled.version != reading.version) return;
  if (pulled.piece == 0) reading = {0, *pulled.version, pulled.complete, pulled.is_there};
  ++reading.next_piece;
  pull(pulled.range);
  after_piece();
}

void Worker::after_piece() {
  if (all_there()) return done();
  if (!std::ranges::all_of(ranges_, [&](const Reading& reading) { return reading.next_piece == rules_.pieces; }))
    return;
  state_ = State::computing;
  actions_.emplace_back(Compute{lease_, microbatch_});
}

void Worker::computed(const LeaseId& lease) {
  if (state_ != State::computing || lease != lease_) return;
  state_ = State::pushing;
  for (int i = 0; i < rules_.ranges; ++i) push((first_range_ + i) % rules_.ranges);
}

void Worker::push(int range) {
  const auto index = static_cast<std::size_t>(range);
  const Reading& reading = ranges_[index];
  if (reading.is_there) return;
  send(directory_.primaries[index], Push{range, lease_, microbatch_, reading.version, reading.complete});
}

void Worker::handle(Node /*from*/, const Pushed& pushed) {
  if (state_ != State::pushing || pushed.microbatch != microbatch_) return;
  ranges_[static_cast<std::size_t>(pushed.range)].is_there = true;
  if (all_there()) done();
}

bool Worker::all_there() const {
  return std::ranges::all_of(ranges_, [](const Reading& reading) { return reading.is_there; });
}

void Worker::done() {
  state_ = State::done;
  ask();
}

void Worker::ask() {
  if (!scheduler_) return;
  Ask ask{lease_, microbatch_, Phase::working, state_ == State::done};
  if (state_ == State::idle || state_ == State::done) ask.phase = Phase::idle;
  if (state_ == State::pulling) ask.phase = Phase::pulling;
  send(*scheduler_, ask);
}

void Worker::tick() {
  if (state_ == State::finished) return;
  ask();
  for (int range = 0; range < rules_.ranges; ++range) {
    if (state_ == State::pulling) pull(range);
    if (state_ == State::pushing) push(range);
  }
}

}  // namespace distdl::parallel::server
