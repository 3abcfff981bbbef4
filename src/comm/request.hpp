// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace distdl::comm {

/// An operation under way. Belongs to the thread of its Communicator, which must outlive it.
class [[nodiscard]] Request {
 public:
  class Pending;  ///< what is behind it

  Request() = default;
  explicit Request(Pending* pending) : pending_(pending) {}
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  /// Cancels what is not done.
  ~Request();

  /// Until it is done; at once if it already was. Throws as the operation's Communicator says.
  void wait();
  /// Is it done? Lets everything under way advance.
  bool test();
  /// Gives up; private memory is the caller's again, while neighbours may go on working on shared memory until they too
  /// have given up. A collective that one rank gives up fails on the others at their deadline; a long message between
  /// two nodes takes the connection along.
  void cancel() noexcept;

 private:
  Pending* pending_ = nullptr;  ///< owned by the communicator's pool, which takes it back
};

}  // namespace distdl::comm
