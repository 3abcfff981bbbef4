// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/clock.hpp>
#include <distdl/comm/request.hpp>
#include <distdl/comm/ucx/activity.hpp>
#include <distdl/comm/ucx/fabric.hpp>

namespace distdl::comm {

/// An operation behind a Request. Lives in a pool of its communicator and is used again and again.
class Request::Pending : public Activity {
 public:
  explicit Pending(Fabric& fabric) : fabric_(fabric) {}
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /// It belongs to a Request now. `spins`: calls of advance() before a wait gives way to others.
  void start(Clock::duration timeout, int spins);
  void wait();
  bool test();
  /// The Request is gone.
  void release() noexcept;
  bool in_use() const { return in_use_; }

  bool advance() final { return done_ || (done_ = proceed()); }

 protected:
  /// What advance() does until it is done.
  virtual bool proceed() = 0;

 private:
  Fabric& fabric_;
  Clock::duration timeout_{};
  int spins_ = 0;
  bool in_use_ = false;
  bool done_ = false;
};

}  // namespace distdl::comm
