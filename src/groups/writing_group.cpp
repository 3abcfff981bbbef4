// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <thread>

#include <distdl/base/log.hpp>
#include <distdl/groups/communicator_group.hpp>
#include <distdl/groups/writing_group.hpp>

namespace distdl::groups {
namespace {
using namespace std::chrono_literals;

constexpr std::chrono::seconds kLastLook(1);  // at the end of a wait, for whom it was

/// It waits asleep, since training needs the processor, and another thread can cancel its waits.
class WritingGroup final : public checkpoint::Group {
 public:
  WritingGroup(std::unique_ptr<comm::Communicator> communicator, Clock::duration patience)
      : communicator_(std::move(communicator)), patience_(patience) {}
  ~WritingGroup() override {
    bool parts = !cancelled_ && !failed_;
    try {
      if (parts) communicator_->close();
    } catch (const std::exception& error) {
      log(Severity::debug, "the writing threads did not close their communicator in order: {}", error.what());
      parts = false;
    }
    if (!parts) communicator_->abort("a rank stopped writing its checkpoint");
  }
  int rank() const override { return communicator_->rank().value; }
  int size() const override { return communicator_->size(); }
  void cancel() noexcept override { cancelled_ = true; }

  std::vector<std::string> all_gather(const std::string& mine) override try {
    return communicator_->all_gather_strings(mine, options(), [this](comm::Request& request) { wait(request); });
  } catch (...) {
    failed_ = true;
    throw;
  }

  void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) override try {
    groups::exchange_buffers(*communicator_, out, in, kLastLook, [this](comm::Request& request) { wait(request); });
  } catch (...) {
    failed_ = true;
    throw;
  }

 private:
  static comm::CallOptions options() {
    comm::CallOptions options;
    options.timeout = kLastLook;  // of the Communicator's own wait, which only comes after ours
    return options;
  }
  void wait(comm::Request& request) {
    const auto end = Deadline::after(patience_);
    for (auto pause = 20us; !request.test(); pause = std::min<std::chrono::microseconds>(2 * pause, 2ms)) {
      if (cancelled_) throw CommError("the save was cancelled");
      if (end.expired()) return name_the_late(request);
      std::this_thread::sleep_for(pause);
    }
  }
  /// Unless the others come at the last moment.
  void name_the_late(comm::Request& request) const try { request.wait(); } catch (const comm::PeerLost& lost) {
    throw comm::PeerLost(
        lost.rank(), lost.host(),
        fmt::format("the threads that write checkpoints waited for checkpoint.timeout_seconds = {:.0f}: {}",
                    std::chrono::duration<double>(patience_).count(), lost.what()),
        lost.exit_code(), lost.ranks());
  }

  std::unique_ptr<comm::Communicator> communicator_;
  Clock::duration patience_;
  std::atomic<bool> cancelled_{false};
  bool failed_ = false;
};
}  // namespace

std::unique_ptr<checkpoint::Group> make_writing_group(comm::Communicator& training, Clock::duration patience) {
  if (training.size() == 1) return std::make_unique<checkpoint::SingleProcessGroup>();
  return std::make_unique<WritingGroup>(training.duplicate(), patience);
}

}  // namespace distdl::groups
