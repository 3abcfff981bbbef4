// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <unistd.h>

#include <distdl/capi/library/handles.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::capi {

/// A communicator and those that were split from it, or a store without one: one call at a time uses it.
class Family {
 public:
  /// Waits until no other call uses it. Throws CallError after a fork.
  [[nodiscard]] std::unique_lock<std::mutex> lock();
  /// Whether another call waits for it.
  bool is_wanted() const noexcept { return waiting_ > 0; }
  /// Owns nothing if another call uses the family, or this is a child of its process.
  [[nodiscard]] std::unique_lock<std::mutex> try_lock();
  bool has_failed() const noexcept { return failed_; }
  /// Throws CallError (DISTDL_PEER_LOST) if a peer was lost before.
  void check() const;
  /// Notes that a peer was lost, or that this rank has told the others that it ends.
  void set_failed(const std::string& why) noexcept;

 private:
  std::mutex mutex_;
  std::atomic<int> waiting_ = 0;
  std::atomic<bool> failed_ = false;
  std::string why_;
  const ::pid_t process_ = ::getpid();
};

/// Calls `body` while the family is locked, and notes the loss of a peer.
template <class Body>
void use(Family& family, const std::unique_lock<std::mutex>&, Body&& body) {
  family.check();
  try {
    body();
  } catch (const comm::NoMemory&) {
    throw;
  } catch (const CommError& error) {
    family.set_failed(error.what());
    throw;
  }
}
/// Calls `body` likewise, when nobody else uses the family.
template <class Body>
void use(Family& family, Body&& body) {
  use(family, family.lock(), std::forward<Body>(body));
}

class RequestObject;

class CommunicatorObject {
 public:
  using Handle = distdl_comm;
  static constexpr Kind kKind = Kind::communicator;

  CommunicatorObject(std::unique_ptr<comm::Communicator> own, std::shared_ptr<CommunicatorObject> of);
  ~CommunicatorObject();
  CommunicatorObject(const CommunicatorObject&) = delete;
  CommunicatorObject& operator=(const CommunicatorObject&) = delete;

  /// Throws CallError (DISTDL_INVALID) if another thread has closed it.
  comm::Communicator& get() const {
    need(communicator != nullptr, "comm was closed");
    return *communicator;
  }
  /// Throws CallError (DISTDL_STATE) while something uses it.
  void require_unused() const;
  /// Ends what is under way, without the others.
  void cancel_requests() noexcept;

  const std::shared_ptr<CommunicatorObject> parent;  ///< that it was split from
  const std::shared_ptr<Family> family;
  const int rank, size;

  // While the family is locked:
  std::unique_ptr<comm::Communicator> communicator;
  std::map<void*, tensor::Buffer> memory;
  std::atomic<int> users = 0;  ///< parts, sums and stores; the thread that drops the last handle of one counts it down
  std::set<RequestObject*> requests;
};

/// Counts as a user of a communicator as long as it exists. Made and ended while the family is locked.
class Use {
 public:
  explicit Use(std::shared_ptr<CommunicatorObject> of) : of_(std::move(of)) {
    if (of_) ++of_->users;
  }
  ~Use() { end(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  void end() noexcept {
    if (of_) --of_->users;
    of_.reset();
  }

 private:
  std::shared_ptr<CommunicatorObject> of_;
};

}  // namespace distdl::capi
