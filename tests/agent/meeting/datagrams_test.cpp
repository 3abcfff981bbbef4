// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <distdl/agent/meeting/datagrams.hpp>
#include <distdl/agent/own_address.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::agent {
namespace {
const std::string kLoopback = "127.0.0.1";

/// Two agents on this machine.
struct Pair {
  Datagrams a{kLoopback}, b{kLoopback};
  explicit Pair(const std::string& secret_of_a = "secret", const std::string& secret_of_b = "secret") {
    const std::vector<std::string> addresses{a.address(), b.address()};
    a.connect(addresses, secret_of_a);
    b.connect(addresses, secret_of_b);
  }
};

/// Waits for it; nothing after two seconds.
std::optional<std::string> next(Datagrams& datagrams) {
  pollfd polled{datagrams.descriptor(), POLLIN, 0};
  if (::poll(&polled, 1, 2000) <= 0) return std::nullopt;
  return datagrams.receive();
}

TEST(Datagrams, CarryBytesBothWays) {
  Pair pair;
  const std::string bytes("with \0 in it", 12);
  pair.a.send(1, bytes);
  EXPECT_EQ(next(pair.b), bytes);
  pair.b.send(0, "");
  EXPECT_EQ(next(pair.a), "");
  EXPECT_EQ(pair.a.receive(), std::nullopt);
}

TEST(Datagrams, WithoutTheSecretAreDropped) {
  Pair pair("secret", "another");
  pair.a.send(1, "forged");
  EXPECT_EQ(next(pair.b), std::nullopt);
}

/// Sends raw bytes to the port of `to`.
void send_raw(const Datagrams& to, const std::string& bytes) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(to.address().substr(to.address().find(' ')))));
  ::inet_pton(AF_INET, kLoopback.c_str(), &address.sin_addr);
  EXPECT_EQ(
      ::sendto(socket, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof address),
      static_cast<ssize_t>(bytes.size()));
  ::close(socket);
}

TEST(Datagrams, ShortAndStrangeOnesDoNoHarm) {
  Pair pair;
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string(31, '\0'), std::string(32, '\0'), std::string(5000, 'x')})
    send_raw(pair.b, bytes);
  pair.a.send(1, "after them");
  std::optional<std::string> found;
  for (int i = 0; i < 6 && !found; ++i) found = next(pair.b);
  EXPECT_EQ(found, "after them");
}

TEST(Datagrams, ToAnAgentThatIsGoneAreLost) {
  Datagrams a(kLoopback);
  std::string gone;
  {
    const Datagrams b(kLoopback);
    gone = b.address();
  }
  a.connect({a.address(), gone}, "secret");
  a.send(1, "lost");
  a.send(1, "lost too");
  a.send(0, "to itself");
  EXPECT_EQ(next(a), "to itself");
}

TEST(Datagrams, AnAgentIsReachedOnceItsAddressIsKnown) {
  Pair pair;
  Datagrams joined(kLoopback);
  joined.connect({pair.a.address(), pair.b.address(), joined.address()}, "secret");
  pair.a.send(2, "lost");
  pair.a.add(2, joined.address());
  pair.a.send(2, "here");
  EXPECT_EQ(next(joined), "here");
  EXPECT_EQ(own_address("auto", kLoopback), kLoopback);
}

TEST(Datagrams, RefuseWhatIsNoAddress) {
  EXPECT_THROW(Datagrams("nowhere.example"), SchedulerError);
  Datagrams a(kLoopback);
  EXPECT_THROW(a.connect({"127.0.0.1"}, ""), SchedulerError);
  EXPECT_THROW(a.connect({"127.0.0.1 port"}, ""), SchedulerError);
  EXPECT_THROW(own_address("nosuch0"), ConfigError);
  EXPECT_EQ(own_address("lo"), kLoopback);
}
}  // namespace
}  // namespace distdl::agent
