// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace distdl::comm {

/// An operation under way. Only the thread of its Communicator may use it. The Communicator must outlive it.
class [[nodiscard]] Request {
 public:
  class Pending;  ///< what is behind it

  Request() = default;
  explicit Request(Pending* pending) : pending_(pending) {}
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  /// Cancels what is not done.
  ~Request();

  /// Waits until the operation is done. Throws as its Communicator says.
  void wait();
  /// Is it done? Advances everything under way.
  bool test();
  /// Gives up the operation. The caller may use its private memory again; other ranks of the node may access shared
  /// memory until they have given up too. A collective that one rank gives up fails on the others at their deadline.
  /// Cancelling a long message between two nodes closes the connection.
  void cancel() noexcept;

 private:
  Pending* pending_ = nullptr;  ///< owned by the communicator's pool, which takes it back
};

}  // namespace distdl::comm
