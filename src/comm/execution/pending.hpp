// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include <distdl/base/clock.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/comm/request.hpp>
#include <distdl/comm/ucx/activity.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// The operation of a Request. It is kept in a pool of its communicator and reused.
class Request::Pending : public Activity {
 public:
  explicit Pending(Fabric& fabric) : fabric_(fabric) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// Assigns the operation to a Request. `spins`: calls of advance() before a wait yields.
  void start(Clock::duration timeout, int spins);
  /// Before start(): adds it to what is counted, once it is done.
  void count(Traffic& traffic, std::size_t bytes) {
    traffic_ = &traffic;
    counted_bytes_ = bytes;
  }
  /// Returns early if a stop is requested.
  void wait(const std::stop_token& stop);
  bool test();
  /// Called when the Request is destroyed.
  void release() noexcept;
  bool in_use() const { return in_use_; }
  bool done() const { return done_; }
  /// A wait for it, in a trace. Its times are not set.
  virtual Span wait_span() const {
    const Operation of = operation();
    return {.name = of.name, .bytes = of.bytes, .number = of.sequence, .kind = SpanKind::message_wait};
  }

  bool advance() final {
    if (done_) return true;
    done_ = proceed();
    if (done_ && traffic_ != nullptr) add_to_traffic();
    return done_;
  }

 protected:
  /// The work of advance() until the operation is done.
  virtual bool proceed() = 0;

 private:
  void add_to_traffic();

  Fabric& fabric_;
  Traffic* traffic_ = nullptr;  ///< none: it is not counted
  std::size_t counted_bytes_ = 0;
  Clock::time_point begin_{};
  Clock::duration timeout_{};
  int spins_ = 0;
  bool in_use_ = false;
  bool done_ = false;
};

}  // namespace distdl::comm
