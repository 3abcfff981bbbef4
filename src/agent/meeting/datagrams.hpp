// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::agent {

/// The UDP socket of one agent. Each datagram ends with an authentication code (HMAC-SHA256, RFC 2104), and what does
/// not prove the launch's secret is dropped. Datagrams may be lost, repeated or late.
class Datagrams {
 public:
  /// Binds a free port of the numeric `address`. Throws SchedulerError.
  explicit Datagrams(const std::string& address);
  /// "10.77.0.1 41234", for the other agents.
  const std::string& address() const { return address_; }
  /// Readable when receive() may return something.
  int descriptor() const { return socket_.get(); }
  /// `addresses` of all agents, this one's too, in the order of their nodes; empty: not known yet. `secret`: only these
  /// agents have it. Throws SchedulerError for an address that is none.
  void connect(const std::vector<std::string>& addresses, std::string secret);
  /// The address of one more agent. Throws SchedulerError.
  void add(std::size_t node, const std::string& address);
  /// Does not wait. What the system does not take now is lost, like any datagram; so is one to an agent whose address
  /// is not known.
  void send(std::size_t node, std::string_view bytes);
  /// The next datagram with a right code; nothing if there is none now.
  std::optional<std::string> receive();

 private:
  struct Peer {
    sockaddr_storage address{};
    socklen_t length = 0;  ///< 0: the address is not known
  };

  FileDescriptor socket_;
  std::string address_;
  std::vector<Peer> peers_;
  std::string secret_;
};

}  // namespace distdl::agent
