// SPDX-License-Identifier: Apache-2.0
// Waits, and the activities that advance in them.
#include <algorithm>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/comm/peer_lost.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {
namespace {

constexpr Operation kClose{"close", 0};
constexpr Milliseconds kLateHandshake{1000};
/// After a loss others may be lost, too, without anybody knowing it yet.
constexpr Milliseconds kLeaving{1000}, kLeavingAfterLoss{200};
/// Time after which the end of a process is seen.
constexpr Milliseconds kMoment{200};
/// A wait polls its clock each 10 ms. If it did not for so long, this process was stopped (a job that Slurm suspends)
/// or blocked, and so may the others have been: they get some time to continue.
constexpr Milliseconds kNotRunning{1000}, kAfterStop{5000};
/// Number of polls of an activity that polls memory each time that UCX gets its turn.
constexpr int kLooks = 16;

}  // namespace

std::string to_string(const Operation& operation) {
  return operation.sequence ? fmt::format("{} {}", operation.name, operation.sequence) : operation.name;
}

/// All transfers of a batch.
class Fabric::WholeBatch final : public Activity {
 public:
  WholeBatch(Fabric& fabric, Batch& batch, const Operation& operation)
      : fabric_(fabric), batch_(batch), operation_(operation) {
    fabric_.add(*this);
  }
  ~WholeBatch() override { fabric_.remove(*this); }
  WholeBatch(const WholeBatch&) = delete;
  WholeBatch& operator=(const WholeBatch&) = delete;
  bool advance() override {
    fabric_.check(batch_, operation_);
    return batch_.done();
  }
  void add_awaited(std::vector<Rank>& ranks) const override { batch_.add_awaited(ranks); }
  Operation operation() const override { return operation_; }
  void cancel() noexcept override { fabric_.cancel(batch_); }

 private:
  Fabric& fabric_;
  Batch& batch_;
  Operation operation_;
};

Fabric::Fabric(const Options& options)
    : options_(options),
      connections_(options),
      idle_(connections_.worker()),
      detector_(connections_, activities_, idle_) {}

/// Connections may break while they are closed, of which the detector learns: it goes after them.
Fabric::~Fabric() {
  activities_.cancel();
  detector_.stop_listening();
  connections_.shut_down();
}

void Fabric::connect(Rank self, std::vector<PeerAddress> addresses) {
  connections_.connect(
      self, std::move(addresses),
      {[this](Rank rank) { detector_.watch(rank); },
       [this](Rank rank, const std::string& why) { detector_.mark_lost(rank, Evidence::broken_connection, why); }});
  detector_.listen();
}

int Fabric::open_endpoints() const {
  const auto& peers = connections_.peers();
  return static_cast<int>(
      std::count_if(peers.begin(), peers.end(), [](const auto& peer) { return peer.endpoint != nullptr; }));
}

const Handshake* Fabric::handshake_with(Rank rank) const {
  const auto& peer = connections_.peer(rank);
  return peer.proved() ? &*peer.handshake : nullptr;
}

Refused Fabric::refused() const {
  Refused all = connections_.refused();
  all.control_messages = detector_.refused_messages();
  return all;
}

void Fabric::check(Batch& batch, const Operation& operation) {
  const auto broken = connections_.check(batch, operation);
  if (!broken) return;
  detector_.mark_lost(broken->peer, Evidence::broken_connection, broken->why);
  throw PeerLost(broken->peer, peer_address(broken->peer).host,
                 fmt::format("{}: {}", to_string(operation), broken->why));
}

Clock::duration Fabric::timeout() const {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
}

void Fabric::add(Activity& activity) {
  throw_if_unusable(activity.operation());
  activities_.add(activity);
}

void Fabric::wait(Batch& batch, const Operation& operation, Clock::duration timeout) {
  WholeBatch whole(*this, batch, operation);
  wait(whole, timeout);
}

void Fabric::wait(Activity& activity, Clock::duration timeout, const std::stop_token& stop) {
  if (!under_way(activity)) return throw_if_unusable(activity.operation());
  require<InternalError>(!advancing_, "{}: an activity must not wait for another one", to_string(activity.operation()));
  struct Waiting {
    Activities& activities;
    ~Waiting() {
      activities.set_waiting(nullptr);
      end_wait();
    }
  } waiting{activities_};
  activities_.set_waiting(&activity);
  auto start = Clock::now(), looked = start;
  idle_.restart();
  for (advance_all(); under_way(activity);) {
    const bool progressed = progress();
    for (int i = 0; i < kLooks && activity.polls() && under_way(activity); ++i) advance(activity);
    if (!under_way(activity) || stop.stop_requested()) return;
    if (const auto loss = detector_.find_loss()) fail(activity.operation(), *loss);
    const auto now = Clock::now();
    if (now - std::exchange(looked, now) > kNotRunning)
      start = std::max(start, now - timeout + std::min<Clock::duration>(timeout, kAfterStop));
    if (const auto waited = now - start; waited > timeout)
      if (const auto loss = detector_.find_culprit(activity, waited, timeout, [this] { progress_or_pause(); }))
        fail(activity.operation(), *loss);
    if (progressed)
      idle_.restart();
    else
      idle_.pause(activities_.polls(), stop.stop_possible() && !(polls_ && polls_->load(std::memory_order_relaxed)));
  }
}

bool Fabric::poll() {
  const Operation operation = activities_.size() == 0 ? Operation{"poll", 0} : activities_[0].operation();
  throw_if_unusable(operation);
  const bool progressed = progress();
  idle_.restart();  // it polls for ended processes now and then
  if (const auto loss = detector_.find_loss()) fail(operation, *loss);
  return progressed;
}

void Fabric::await_messages(Clock::duration most) {
  constexpr Operation kMessages{"messages", 0};
  throw_if_unusable(kMessages);
  const auto deadline = Deadline::after(most);
  do {
    const bool progressed = progress();
    if (const auto loss = detector_.find_loss()) fail(kMessages, *loss);
    if (progressed) idle_.restart();
    if (progressed || idle_.take_wake()) return;
    // A long message comes in pieces: the next one is not slept for. Nor are the processors left to others for it.
    if (!idle_.is_short()) idle_.pause(activities_.polls(), true);
  } while (!deadline.expired());
}

void Fabric::look_for_loss(std::span<const Rank> ranks, const Operation& operation) {
  const Deadline deadline = Deadline::after(kMoment);
  do {
    progress();
    detector_.mark_processes_lost(ranks);
    if (const auto loss = detector_.find_loss()) fail(operation, *loss);
    idle_.pause();
  } while (!deadline.expired());
}

bool Fabric::progress() {
  const std::uint64_t before = activities_.steps();
  bool progressed = connections_.progress();
  for (const Poller& poller : pollers_) progressed |= poller();
  connections_.read_handshakes();
  detector_.poll();
  advance_all();
  if (idle_.looked()) detector_.check_liveness();
  return progressed || activities_.steps() != before;
}

void Fabric::progress_or_pause() {
  if (progress())
    idle_.restart();
  else
    idle_.pause(activities_.polls());
}

void Fabric::advance_all() {
  for (std::size_t i = 0; i < activities_.size();) {
    Activity& activity = activities_[i];
    advance(activity);
    if (i < activities_.size() && &activities_[i] == &activity) ++i;
  }
}

/// An activity's exception ends all of them. But if a transfer broke, the reason is still to come.
void Fabric::advance(Activity& activity) {
  if (activities_.is_stuck(activity)) return;
  struct Advancing {
    bool& flag;
    ~Advancing() { flag = false; }
  } advancing{advancing_};
  advancing_ = true;
  try {
    if (activity.advance()) activities_.remove(activity);
  } catch (const PeerLost& broken) {
    if (!detector_.is_lost(broken.rank())) give_up();
    activities_.set_stuck(activity);
  } catch (...) {
    give_up();
  }
}

void Fabric::give_up() {
  error_ = std::current_exception();
  activities_.cancel();
  throw;
}

void Fabric::fail(const Operation& operation, const RankLoss& loss) {
  revoked_ = detector_.settle(loss);
  activities_.cancel();
  throw_if_unusable(operation);
  std::abort();  // not reached
}

void Fabric::throw_if_unusable(const Operation& operation) const {
  if (revoked_)
    throw PeerLost(revoked_->rank, peer_address(revoked_->rank).host,
                   fmt::format("{}: {}", to_string(operation), revoked_->why), revoked_->code,
                   detector_.lost_ranks(revoked_->rank));
  if (error_) std::rethrow_exception(error_);
  require<CommError>(connections_.usable(), "{}: the communicator is closed", to_string(operation));
}

void Fabric::close() {
  connections_.begin_close();
  await_handshakes(kLateHandshake);
  wait(connections_.closes(), kClose);
  connections_.flush(Milliseconds(500));
  activities_.cancel();
  connections_.close();
  connections_.force_close_all();
}

/// A peer whose handshake has only begun, for instance after a cancelled receive, may leave without this rank's hello.
/// If it has received the hello, it answers and waits for the close.
void Fabric::await_handshakes(Milliseconds limit) {
  const auto any_is_silent = [this] {
    const auto& peers = connections_.peers();
    return std::any_of(peers.begin(), peers.end(), [this](const auto& peer) {
      return peer.opened && !peer.said_hello && !detector_.is_lost(peer.rank);
    });
  };
  const Deadline deadline = Deadline::after(limit);
  do {
    progress();
    if (const auto loss = detector_.find_loss()) fail(kClose, *loss);
    if (any_is_silent()) idle_.pause();
  } while (!deadline.expired() && any_is_silent());
}

void Fabric::abort(const std::string& reason, ExitCode code) noexcept {
  if (!connections_.worker() || !connections_.close()) return;
  detector_.tell_all(rank(), fmt::format("{} stopped: {}", name(rank()), reason), code);
  activities_.cancel();
  detector_.await_leaving(revoked_ ? kLeavingAfterLoss : kLeaving);
  connections_.force_close_all();
}

}  // namespace distdl::comm
