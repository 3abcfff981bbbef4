// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include <distdl/base/log.hpp>
#include <distdl/train/agreement.hpp>
#include <distdl/train/state.hpp>
#include <distdl/train/writer_bootstrap.hpp>

namespace distdl::train {
namespace {
using namespace std::chrono_literals;

constexpr std::chrono::seconds kLastLook(1);  // at the end of a wait, for whom it was

/// The group that a Communicator of the writing threads forms. It waits asleep, since training needs the processor, and
/// can be told from another thread to stop waiting.
class WritingGroup final : public checkpoint::Group {
 public:
  WritingGroup(std::unique_ptr<comm::Communicator> communicator, Clock::duration patience)
      : communicator_(std::move(communicator)), patience_(patience) {}
  ~WritingGroup() override {
    bool parts = !cancelled_ && !failed_;
    try {
      if (parts) communicator_->close();
    } catch (const std::exception& error) {
      log(Severity::debug, "the writing threads did not part in order: {}", error.what());
      parts = false;
    }
    if (!parts) communicator_->abort("a rank stopped writing its checkpoint");
  }
  int rank() const override { return communicator_->rank().value; }
  int size() const override { return communicator_->size(); }
  void cancel() noexcept override { cancelled_ = true; }

  std::vector<std::string> all_gather(const std::string& mine) override try {
    auto ranks = static_cast<std::size_t>(size());
    std::vector<std::int64_t> lengths(ranks);
    auto length = static_cast<std::int64_t>(mine.size());
    wait(communicator_->all_gather(std::span<const std::int64_t>(&length, 1), std::span(lengths), {}, options()));
    std::vector<std::size_t> counts(lengths.begin(), lengths.end());
    std::string joined(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
    if (!joined.empty())
      wait(communicator_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(joined)), counts,
                                     options()));
    std::vector<std::string> all;
    std::size_t at = 0;
    for (std::size_t count : counts) {
      all.push_back(joined.substr(at, count));
      at += count;
    }
    return all;
  } catch (...) {
    failed_ = true;
    throw;
  }

  void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) override try {
    train::exchange_buffers(*communicator_, out, in, kLastLook, [this](comm::Request& request) { wait(request); });
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
  void wait(comm::Request&& request) { wait(request); }
  void wait(comm::Request& request) {
    const auto end = Deadline::after(patience_);
    for (auto pause = 20us; !request.test(); pause = std::min<std::chrono::microseconds>(2 * pause, 2ms)) {
      if (cancelled_) throw CommError("the checkpoint being written was given up");
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

/// A World whose addresses the training threads exchange.
class WriterBootstrap::AddressExchange final : public world::World {
 public:
  AddressExchange(WriterBootstrap& bootstrap, bool& began) : bootstrap_(bootstrap), began_(began) {}
  Rank rank() const override { return bootstrap_.rank_; }
  int size() const override { return bootstrap_.size_; }
  std::string description() const override { return fmt::format("{} writing threads", bootstrap_.size_); }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    began_ = true;
    bootstrap_.mine_.set_value(mine);
    auto all = bootstrap_.all_.get_future();
    require<SchedulerError>(all.wait_for(timeout) == std::future_status::ready,
                            "the training threads did not exchange the addresses of the writing threads within {} ms",
                            timeout.count());
    return all.get();
  }

 private:
  WriterBootstrap& bootstrap_;
  bool& began_;
};

WriterBootstrap::WriterBootstrap(Rank rank, int size, comm::Options options, Clock::duration patience)
    : rank_(rank), size_(size), options_(std::move(options)), patience_(patience) {}

std::unique_ptr<checkpoint::Group> WriterBootstrap::connect() {
  if (size_ == 1) return std::make_unique<checkpoint::SingleProcessGroup>();
  bool began = false;
  AddressExchange world(*this, began);
  try {
    return std::make_unique<WritingGroup>(comm::Communicator::connect(world, options_), patience_);
  } catch (...) {
    if (!began) mine_.set_exception(std::current_exception());
    throw;
  }
}

void WriterBootstrap::exchange_addresses(comm::Communicator& training) {
  if (size_ == 1) return;
  try {
    std::string mine;
    agree(training, patience_, [&] {
      auto future = mine_.get_future();
      const auto patience = patience_ / 2;  // the others wait for this rank meanwhile
      require<CommError>(future.wait_for(patience) == std::future_status::ready,
                         "the thread that writes checkpoints did not open its network within {:.0f} s; its node may be "
                         "overloaded, or the network hang",
                         std::chrono::duration<double>(patience).count());
      mine = future.get();
    });
    all_.set_value(training.all_gather_strings(mine, patience_));
  } catch (...) {
    all_.set_exception(std::current_exception());
    throw;
  }
}

}  // namespace distdl::train
