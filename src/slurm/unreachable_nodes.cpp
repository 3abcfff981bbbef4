// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/ranges.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/queries/fields.hpp>
#include <distdl/slurm/unreachable_nodes.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

constexpr auto kKnockAgain = 1s;           ///< between two tries: the network may be back
constexpr Milliseconds kKnockTick = 50ms;  ///< between two looks at is_over()
constexpr Milliseconds kAddressLimit = 5s;

/// One node, while nothing is known of it.
struct Knock {
  std::string node;
  sockaddr_storage address{};
  socklen_t length = 0;
  FileDescriptor socket{-1};
  Deadline next = Deadline::after(0s);
};

bool is_silence(int error) {
  return std::ranges::count(std::array{ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN}, error) > 0;
}

std::optional<Knock> knock_at(const std::string& node, const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Knock knock{node};
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): the way of the socket interface
  std::copy_n(reinterpret_cast<const char*>(found->ai_addr), found->ai_addrlen,
              reinterpret_cast<char*>(&knock.address));
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
  knock.length = found->ai_addrlen;
  return knock;
}

/// Those of which Slurm tells the address.
std::vector<Knock> knocks_at(const std::vector<std::string>& nodes) {
  std::vector<Knock> knocks;
  const auto shown = ask({"scontrol", "show", "node", "-o", fmt::format("{}", fmt::join(nodes, ","))}, kAddressLimit);
  if (nodes.empty() || shown.exit_code != 0) return knocks;
  const auto port = std::to_string(scheduler().settings().slurmd_port);
  for (const Fields& fields : records_in(shown.output, "NodeName")) {
    const auto name = fields.text("NodeName"), own_port = fields.text("Port");
    if (std::ranges::count(nodes, name) == 0) continue;
    auto knock = knock_at(name, fields.text("NodeAddr"), own_port.empty() ? port : own_port);
    if (knock) knocks.push_back(std::move(*knock));
  }
  return knocks;
}

/// Begins to connect. Returns whether that has been answered, or cannot be tried here.
bool begin(Knock& knock) {
  knock.next = Deadline::after(kKnockAgain);
  knock.socket = FileDescriptor(::socket(knock.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (knock.socket.get() < 0) return true;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the way of the socket interface
  if (::connect(knock.socket.get(), reinterpret_cast<const sockaddr*>(&knock.address), knock.length) == 0) return true;
  if (errno == EINPROGRESS) return false;
  knock.socket = FileDescriptor(-1);
  return !is_silence(errno);
}

/// After poll() has found the socket ready.
bool is_answered(Knock& knock) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(knock.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  knock.socket = FileDescriptor(-1);
  return !is_silence(error);
}

/// Waits a moment; removes those that have answered.
void wait_a_moment(std::vector<Knock>& knocks) {
  std::vector<pollfd> polled;
  polled.reserve(knocks.size());
  for (const auto& knock : knocks) polled.push_back({knock.socket.get(), POLLOUT, 0});  // -1 is passed over
  if (::poll(polled.data(), polled.size(), static_cast<int>(kKnockTick.count())) <= 0) return;
  std::size_t i = 0;
  std::erase_if(knocks, [&](Knock& knock) { return polled[i++].revents != 0 && is_answered(knock); });
}
}  // namespace

std::vector<std::string> unreachable_nodes(const std::vector<std::string>& nodes, Milliseconds limit,
                                           const std::function<bool()>& is_over) try {
  auto knocks = knocks_at(nodes);
  for (const auto end = Deadline::after(limit); !knocks.empty() && !end.expired();) {
    if (is_over()) return {};
    std::erase_if(knocks, [](Knock& knock) { return knock.next.expired() && begin(knock); });
    wait_a_moment(knocks);
  }
  std::vector<std::string> silent;
  silent.reserve(knocks.size());
  for (auto& knock : knocks) silent.push_back(std::move(knock.node));
  return silent;
} catch (const SchedulerError&) {  // Slurm does not answer
  return {};
}

}  // namespace distdl::slurm
