// SPDX-License-Identifier: Apache-2.0
// Activities under way, and the waits in which they advance. Who is to blame if one fails is in fabric_loss.cpp.
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/comm/peer_lost.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {
namespace {

/// How often an activity that polls memory looks there each time that UCX gets its turn.
constexpr int kLooks = 16;

}  // namespace

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

Clock::duration Fabric::timeout() const {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.timeout_seconds));
}

void Fabric::add(Activity& activity) {
  throw_if_unusable(activity.operation());
  activities_.push_back({&activity});
}

void Fabric::remove(Activity& activity) noexcept {
  std::erase_if(activities_, [&](const UnderWay& one) { return one.activity == &activity; });
}

bool Fabric::under_way(const Activity& activity) const {
  return std::any_of(activities_.begin(), activities_.end(),
                     [&](const UnderWay& one) { return one.activity == &activity; });
}

void Fabric::wait(Batch& batch, const Operation& operation, Clock::duration timeout) {
  WholeBatch whole(*this, batch, operation);
  wait(whole, timeout);
}

void Fabric::wait(Activity& activity, Clock::duration timeout) {
  if (!under_way(activity)) return throw_if_unusable(activity.operation());
  require<InternalError>(!advancing_, "{}: an activity waits for another", to_string(activity.operation()));
  struct Waiting {
    Activity*& slot;
    ~Waiting() { slot = nullptr; }
  } waiting{waiting_};
  waiting_ = &activity;
  const auto start = Clock::now();
  idle_.restart();
  for (advance_all(); under_way(activity);) {
    const bool progressed = progress();
    for (int i = 0; i < kLooks && activity.polls() && under_way(activity); ++i) advance(activity);
    if (!under_way(activity)) return;
    if (const auto loss = find_loss()) fail(activity.operation(), *loss);
    const auto waited = Clock::now() - start;
    if (waited > timeout) find_culprit(activity, waited, timeout);
    if (progressed)
      idle_.restart();
    else
      idle_.pause(polls());
  }
}

bool Fabric::poll() {
  const Operation operation = activities_.empty() ? Operation{"poll", 0} : activities_.front().activity->operation();
  throw_if_unusable(operation);
  const bool progressed = progress();
  idle_.restart();  // which looks for ended processes now and then
  if (const auto loss = find_loss()) fail(operation, *loss);
  return progressed;
}

bool Fabric::progress() {
  const std::uint64_t before = steps();
  const unsigned count = ucp_worker_progress(worker_.get());
  read_handshakes();
  read_control_messages();
  mark_ended();
  advance_all();
  if (idle_.looked()) check_liveness();
  return count > 0 || steps() != before;
}

void Fabric::advance_all() {
  for (std::size_t i = 0; i < activities_.size();) {
    Activity& activity = *activities_[i].activity;
    advance(activity);
    if (i < activities_.size() && activities_[i].activity == &activity) ++i;
  }
}

/// What an activity throws ends all of them. But where a transfer broke, why it did is still to come.
void Fabric::advance(Activity& activity) {
  const auto entry = [&] {
    return std::find_if(activities_.begin(), activities_.end(),
                        [&](const UnderWay& one) { return one.activity == &activity; });
  };
  if (entry()->stuck) return;
  struct Advancing {
    bool& flag;
    ~Advancing() { flag = false; }
  } advancing{advancing_};
  advancing_ = true;
  try {
    if (activity.advance()) remove(activity);
  } catch (const PeerLost& broken) {
    if (!is_lost(broken.rank())) give_up();
    entry()->stuck = true;
  } catch (...) {
    give_up();
  }
}

void Fabric::give_up() {
  error_ = std::current_exception();
  cancel_activities();
  throw;
}

/// What this rank waits for; else what has been under way for longest.
const Activity* Fabric::foremost() const {
  if (waiting_ || activities_.empty()) return waiting_;
  return activities_.front().activity;
}

void Fabric::cancel_activities() noexcept {
  for (const auto& one : std::exchange(activities_, {})) one.activity->cancel();
}

std::uint64_t Fabric::steps() const {
  std::uint64_t sum = 0;
  for (const auto& one : activities_) sum += one.activity->steps();
  return sum;
}

bool Fabric::polls() const {
  return std::any_of(activities_.begin(), activities_.end(), [](const UnderWay& one) { return one.activity->polls(); });
}

}  // namespace distdl::comm
