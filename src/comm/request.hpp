// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>

namespace distdl::comm {

/// An operation under way. Only the thread of its Communicator may use it. The Communicator must outlive it.
class [[nodiscard]] Request {
 public:
  class Pending;  ///< the operation itself

  Request() = default;
  explicit Request(Pending* pending) : pending_(pending) {}
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  /// Cancels the operation unless it is done.
  ~Request();

  /// Waits until the operation is done. For the errors see Communicator.
  void wait();
  /// Waits until the operation is done, or a stop is requested, which is seen within 10 ms. Returns true if the
  /// operation is done. The wait is for a thread beside one that computes: it sleeps instead of polling.
  bool wait(const std::stop_token& stop);
  /// True if the operation is done. Advances everything under way.
  bool test();
  /// Cancels the operation. The caller may then reuse its private memory; other ranks of the node may access shared
  /// memory until they have also cancelled. A collective that one rank cancels fails on the other ranks at their
  /// deadline. Cancelling a long message between two nodes closes the connection.
  void cancel() noexcept;

 private:
  Pending* pending_ = nullptr;  ///< owned by the pool of the communicator
};

}  // namespace distdl::comm
