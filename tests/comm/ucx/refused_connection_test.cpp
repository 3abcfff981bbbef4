// SPDX-License-Identifier: Apache-2.0
// The kernel refuses a connection over a link that has just come back: connect() begins it, and getpeername(), which
// UCX 1.13 and 1.18 ask then, has no peer. Those of this program stand in for libc's, as often as a test asks for it.
#include <cerrno>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include "tests/comm/ucx/connected_fabrics.hpp"
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>

namespace {
std::mutex mutex;
int refused = 0;  ///< connections that are yet to be refused
std::set<int> refused_sockets;
}  // namespace

extern "C" __attribute__((visibility("default"))) int connect(int socket, const sockaddr* address, socklen_t size) {
  {
    const std::lock_guard lock(mutex);
    if (refused > 0) {
      --refused;
      refused_sockets.insert(socket);
    }
  }
  static const auto real = reinterpret_cast<int (*)(int, const sockaddr*, socklen_t)>(::dlsym(RTLD_NEXT, "connect"));
  return real(socket, address, size);
}

extern "C" __attribute__((visibility("default"))) int getpeername(int socket, sockaddr* address,
                                                                  socklen_t* size) noexcept {
  {
    const std::lock_guard lock(mutex);
    if (refused_sockets.erase(socket) > 0) {
      errno = ENOTCONN;
      return -1;
    }
  }
  static const auto real = reinterpret_cast<int (*)(int, sockaddr*, socklen_t*)>(::dlsym(RTLD_NEXT, "getpeername"));
  return real(socket, address, size);
}

namespace distdl::comm {
namespace {
class RefusedConnection : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("UCX_TLS", "tcp,self", 1); }
  void TearDown() override {
    refused = 0;
    refused_sockets.clear();
    before_ ? ::setenv("UCX_TLS", before_->c_str(), 1) : ::unsetenv("UCX_TLS");
  }

  static int received_from_peer(Fabric& fabric) {
    const Rank peer(1 - fabric.rank().value);
    const int mine = fabric.rank().value;
    int theirs = -1;
    Batch batch(fabric);
    fabric.receive(batch, room_of(theirs), peer, {});
    fabric.send(batch, bytes_of(mine), peer, {});
    fabric.wait(batch, {"exchange", 1});
    return theirs;
  }

 private:
  std::optional<std::string> before_ = env("UCX_TLS");
};

TEST_F(RefusedConnection, IsTriedOnceAgain) {
  refused = 1;
  on_fabrics(2, [](Fabric& fabric) {
    EXPECT_EQ(received_from_peer(fabric), 1 - fabric.rank().value);
    EXPECT_EQ(fabric.refused().handshake_messages, 0);
    fabric.close();
  });
  EXPECT_EQ(refused, 0);
}

TEST_F(RefusedConnection, IsALossTheSecondTime) {
  refused = 1000;
  on_fabrics(2, [](Fabric& fabric) {
    EXPECT_THROW(received_from_peer(fabric), PeerLost);
    fabric.abort("its peer is lost", ExitCode::peer_lost);
  });
  EXPECT_GT(refused, 900) << "there is no third attempt";
}
}  // namespace
}  // namespace distdl::comm
