// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <future>
#include <thread>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/proof/proofs.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::checkpoint::proof {
namespace {

/// A run that pauses before one of its operations until it is told to go on.
class Actor {
 public:
  Actor(const std::filesystem::path& root, std::string nonce, bool thorough)
      : nonce_(std::move(nonce)),
        files_({.fault = FailingFileSystem::Fault::call,
                .at = -1,
                .call =
                    [this] {
                      if (told_.exchange(true)) return;  // the work has ended, this is the collector's
                      has_paused_ = true;
                      paused_.set_value();
                      go_on_.get_future().wait();
                    },
                .only = thorough ? FailingFileSystem::Call::any : FailingFileSystem::Call::name}),
        store_(root, {.keep = 2}, files_) {}
  ~Actor() { finish(); }
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  void take() { store_.take(alone_, owner_called(nonce_)); }
  void save(Version version) {
    Share share = share_of(make_sample(version.seed), 0, 1);
    store_.save(alone_, Step(version.step), share.slices, sample_state());
    saved = true;
  }
  /// The newest checkpoint and whose bytes it has.
  Version newest() {
    auto found = store_.newest_valid(alone_);
    if (!found) return {};
    for (std::uint64_t seed : {1, 2, 33, 44})
      if (compare(store_, *found, make_sample(seed)).empty()) return {found->step.value, seed};
    return {found->step.value, 0};
  }

  /// Works until it pauses, or has ended before it came so far.
  void start(int pause, std::function<void()> work) {
    files_.strike_in(pause);
    thread_ = std::thread([this, work = std::move(work)] {
      try {
        work();
      } catch (const StorageError& failure) {
        error = failure.what();
      }
      if (!told_.exchange(true)) paused_.set_value();
    });
    paused_.get_future().wait();
  }
  void finish() {
    if (!thread_.joinable()) return;
    go_on_.set_value();
    thread_.join();
  }
  bool has_paused() const { return has_paused_; }

  bool saved = false;
  std::string error;

 private:
  std::string nonce_;
  std::promise<void> paused_, go_on_;
  std::atomic<bool> told_ = false, has_paused_ = false;  ///< told: that it has paused or ended
  FailingFileSystem files_;
  Store store_;
  SingleProcessGroup alone_;
  std::thread thread_;
};

struct Meeting {
  std::int64_t step = 3;  ///< that both save
  bool zombie_first = true, successor_saves = false;
  int zombie_pause = 0, successor_pause = 0;
  bool zombie_paused = false, successor_paused = false;  ///< what came of it
};

std::string meet(Meeting& meeting, bool thorough) {
  TemporaryFolder root;
  new_step(1).before(root.path());
  Version start, end;
  std::string problem;
  {
    Actor zombie(root.path(), "zombie", thorough), successor(root.path(), "successor", thorough);
    zombie.take();
    auto start_zombie = [&] { zombie.start(meeting.zombie_pause, [&] { zombie.save({meeting.step, 33}); }); };
    auto start_successor = [&] {
      successor.start(meeting.successor_pause, [&] {
        successor.take();
        start = successor.newest();
        if (meeting.successor_saves) successor.save({meeting.step, 44});
      });
    };
    meeting.zombie_first ? start_zombie() : start_successor();
    meeting.zombie_first ? start_successor() : start_zombie();
    (meeting.zombie_first ? zombie : successor).finish();
    (meeting.zombie_first ? successor : zombie).finish();
    meeting.zombie_paused = zombie.has_paused();
    meeting.successor_paused = successor.has_paused();
    end = successor.saved ? Version{meeting.step, 44} : start;
    if (!successor.error.empty()) problem = "the successor could not: " + successor.error;
    if (zombie.saved && start != Version{meeting.step, 33})
      problem = "the zombie's save was acknowledged, and the successor did not see it";
  }
  if (!problem.empty()) return problem;
  return judge(root.path(), {.kept = end, .owners = {"successor"}});
}
}  // namespace

ProofResult prove_fence(const Effort& effort) {
  ProofResult verdict;
  auto enough = [&] { return effort.stop_at_first && !verdict.broken.empty(); };
  for (Meeting meeting :
       {Meeting{3, true, false}, Meeting{3, false, false}, Meeting{3, true, true}, Meeting{2, true, false}}) {
    bool zombie_paused = true;  // in any of the meetings so far: it may have had to stop before
    for (meeting.zombie_pause = 0; zombie_paused && !enough(); ++meeting.zombie_pause) {
      zombie_paused = false;
      meeting.successor_paused = true;
      for (meeting.successor_pause = 0; meeting.successor_paused && !enough(); ++meeting.successor_pause) {
        verdict.add(meet(meeting, effort.thorough),
                    fmt::format("step {}, zombie {}, pauses before {}; successor {}, before {}", meeting.step,
                                meeting.zombie_first ? "first" : "second", meeting.zombie_pause,
                                meeting.successor_saves ? "saves" : "looks", meeting.successor_pause));
        ++verdict.cases;
        zombie_paused |= meeting.zombie_paused;
      }
    }
  }
  return verdict;
}

}  // namespace distdl::checkpoint::proof
