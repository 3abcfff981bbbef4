// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/comm/execution/pending.hpp>
#include <distdl/comm/peer_lost.hpp>

namespace distdl::comm {
namespace {
/// Some tens of cycles in which this processor leaves the memory to others.
void pause_shortly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // "yield" does nothing on processors without hardware threads
#endif
}
}  // namespace

void Request::Pending::start(Clock::duration timeout, int spins) {
  timeout_ = timeout;
  spins_ = spins;
  in_use_ = true;
  done_ = false;
  if (traffic_ != nullptr) begin_ = Clock::now();
  fabric_.check_usable(*this);
  try {
    if (advance()) return;
  } catch (const PeerLost&) {
    // A connection broke; the wait will find out why.
  } catch (...) {
    release();  // there will be no Request to do it
    throw;
  }
  fabric_.add(*this);
}

void Request::Pending::add_to_traffic() {
  ++traffic_->calls;
  traffic_->bytes += counted_bytes_;
  traffic_->seconds += std::chrono::duration<double>(Clock::now() - begin_).count();
}

void Request::Pending::wait(const std::stop_token& stop) {
  struct Traced {  // also where the others came first: they may have waited for this rank
    const Pending& pending;
    std::int64_t begin = begin_of_span();
    ~Traced() {
      if (begin == 0) return;
      Span span = pending.wait_span();
      span.begin = begin;
      end_span(span);
    }
  } traced{*this};
  fabric_.poll_sometimes();
  if (done_) return;
  // Most waits within a node are shorter than one poll of the network.
  for (int i = 0; i < spins_ && polls() && !stop.stop_possible(); ++i) {
    if (advance()) return fabric_.remove(*this);
    pause_shortly();
  }
  fabric_.wait(*this, timeout_, stop);
}

bool Request::Pending::test() {
  if (!done_)
    fabric_.poll();
  else
    fabric_.poll_sometimes();
  return done_;
}

void Request::Pending::release() noexcept {
  if (!done_) {
    fabric_.remove(*this);
    cancel();
  }
  in_use_ = false;
}

Request::Request(Request&& other) noexcept : pending_(std::exchange(other.pending_, nullptr)) {}

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    cancel();
    pending_ = std::exchange(other.pending_, nullptr);
  }
  return *this;
}

Request::~Request() {
  cancel();
}

void Request::wait() {
  wait({});
}

bool Request::wait(const std::stop_token& stop) {
  if (!pending_) return true;
  pending_->wait(stop);
  if (!pending_->done()) return false;
  cancel();
  return true;
}

bool Request::test() {
  if (pending_ && pending_->test()) cancel();
  return !pending_;
}

void Request::cancel() noexcept {
  if (pending_) std::exchange(pending_, nullptr)->release();
}

}  // namespace distdl::comm
