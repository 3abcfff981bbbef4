// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include <ifaddrs.h>
#include <netdb.h>

#include <distdl/agent/meeting/datagrams.hpp>
#include <distdl/agent/own_address.hpp>
#include <distdl/base/checksum.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl::agent {
namespace {
constexpr std::size_t kLongest = 60000;  ///< bytes of a datagram; UDP takes 65507

/// A numeric address with its port.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};

std::optional<Endpoint> endpoint_of(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Endpoint endpoint;
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&endpoint.address));
  endpoint.length = found->ai_addrlen;
  return endpoint;
}

/// "10.77.0.1" and "41234"; empty if the system does not tell.
std::array<std::string, 2> texts_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host.data(), port.data()};
}

FileDescriptor open_socket(int family) {
  FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  require_call<SchedulerError>(static_cast<bool>(socket), "cannot open a UDP socket");
  return socket;
}

std::array<std::string, 2> name_of(const FileDescriptor& socket) {
  Endpoint own;
  own.length = sizeof own.address;
  const bool known = ::getsockname(socket.get(), own.get(), &own.length) == 0;
  require<SchedulerError>(known, "cannot ask for the address of a UDP socket: {}", errno_text(errno));
  return texts_of(own.get(), own.length);
}

/// Connecting a UDP socket sends nothing, but chooses the way.
std::string address_towards(const std::string& host) {
  const auto target = endpoint_of(host, "9");
  require<SchedulerError>(target.has_value(), "\"{}\" is no address of a host", host);
  const FileDescriptor socket = open_socket(target->address.ss_family);
  const bool connected = ::connect(socket.get(), target->get(), target->length) == 0;
  require<SchedulerError>(connected, "no network of this host leads to {}: {}", host, errno_text(errno));
  return name_of(socket)[0];
}

std::string address_of_interface(const std::string& interface) {
  ifaddrs* all = nullptr;
  const bool known = ::getifaddrs(&all) == 0;
  require<SchedulerError>(known, "cannot list the network interfaces: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  std::string six;
  for (const auto* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_name != interface) continue;
    if (one->ifa_addr->sa_family == AF_INET) return texts_of(one->ifa_addr, sizeof(sockaddr_in))[0];
    if (one->ifa_addr->sa_family == AF_INET6 && six.empty()) six = texts_of(one->ifa_addr, sizeof(sockaddr_in6))[0];
  }
  require(!six.empty(), "comm.interface: the network interface \"{}\" of this host has no address", interface);
  return six;
}
}  // namespace

std::string own_address(const std::string& interface, const std::optional<std::string>& other) {
  // A name with a colon is a device of UCX, such as "mlx5_0:1".
  if (interface != "auto" && interface.find(':') == std::string::npos) return address_of_interface(interface);
  const auto launcher = other ? other : env("SLURM_LAUNCH_NODE_IPADDR");
  return launcher ? address_towards(*launcher) : "127.0.0.1";
}

Datagrams::Datagrams(const std::string& address) {
  auto own = endpoint_of(address, "0");
  require<SchedulerError>(own.has_value(), "\"{}\" is no address of a host", address);
  socket_ = open_socket(own->address.ss_family);
  const bool bound = ::bind(socket_.get(), own->get(), own->length) == 0;
  require<SchedulerError>(bound, "cannot bind a UDP port of {}: {}", address, errno_text(errno));
  const auto name = name_of(socket_);
  address_ = fmt::format("{} {}", name[0], name[1]);
}

void Datagrams::connect(const std::vector<std::string>& addresses, std::string secret) {
  peers_.clear();
  peers_.resize(addresses.size());
  for (std::size_t node = 0; node < addresses.size(); ++node)
    if (!addresses[node].empty()) add(node, addresses[node]);
  secret_ = std::move(secret);
}

void Datagrams::add(std::size_t node, const std::string& address) {
  const auto space = address.find(' ');
  const auto peer =
      space == std::string::npos ? std::nullopt : endpoint_of(address.substr(0, space), address.substr(space + 1));
  require<SchedulerError>(peer.has_value(), "agent {} published \"{}\", which is no address and port", node, address);
  if (peers_.size() <= node) peers_.resize(node + 1);
  peers_[node] = {peer->address, peer->length};
}

void Datagrams::send(std::size_t node, std::string_view bytes) {
  if (node >= peers_.size() || peers_[node].length == 0) return;
  const Peer& peer = peers_[node];
  std::string datagram(bytes);
  datagram += hmac_sha256(secret_, bytes);
  require<InternalError>(datagram.size() <= kLongest, "a status of {} bytes fits into no datagram", datagram.size());
  // An error says only that this one is lost: the network is away, or an earlier datagram was refused.
  (void)::sendto(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&peer.address), peer.length);
}

std::optional<std::string> Datagrams::receive() {
  std::string datagram(kLongest, '\0');
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), datagram.data(), datagram.size(), 0);
    if (count < 0 && (errno == EINTR || errno == ECONNREFUSED)) continue;  // the latter is of an earlier send()
    if (count < 0) return std::nullopt;
    const auto size = static_cast<std::size_t>(count);
    if (size < kMacBytes) continue;
    const std::string_view bytes(datagram.data(), size - kMacBytes), code(datagram.data() + bytes.size(), kMacBytes);
    if (!equal_in_constant_time(code, hmac_sha256(secret_, bytes))) continue;
    return std::string(bytes);
  }
}

}  // namespace distdl::agent
