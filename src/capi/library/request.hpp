// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <distdl/capi/library/communicator.hpp>
#include <distdl/comm/request.hpp>

namespace distdl::capi {

/// An operation that has begun, and what is left to do when it is done.
struct Begun {
  Begun(comm::Request one, std::function<void()> then = {})  // NOLINT(google-explicit-constructor)
      : request(std::move(one)), finish(std::move(then)) {}

  comm::Request request;
  std::function<void()> finish;
};

/// An operation under way. Its members are used while the family is locked.
class RequestObject {
 public:
  using Handle = distdl_request;
  static constexpr Kind kKind = Kind::request;

  RequestObject(std::shared_ptr<CommunicatorObject> of, Begun begun)
      : request(std::move(begun.request)), finish(std::move(begun.finish)), communicator(std::move(of)) {
    communicator->requests.insert(this);
  }
  ~RequestObject() { end(); }
  RequestObject(const RequestObject&) = delete;
  RequestObject& operator=(const RequestObject&) = delete;

  void end() noexcept {
    if (!is_done) communicator->requests.erase(this);
    request = {};
    is_done = true;
  }

  comm::Request request;
  std::function<void()> finish;
  bool is_done = false;
  const std::shared_ptr<CommunicatorObject> communicator;
};

/// Waits for an operation that has begun, or makes a handle of it if the caller wants one, which is also returned.
std::shared_ptr<RequestObject> finish_or_open(const std::shared_ptr<CommunicatorObject>& object, Begun begun,
                                              distdl_request** request);

}  // namespace distdl::capi
