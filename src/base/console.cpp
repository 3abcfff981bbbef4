// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <unistd.h>

#include <distdl/base/console.hpp>

namespace distdl {
namespace {
constexpr int kPatienceMs = 1000;

/// A run must not wait at each line for a console that took nothing the last time.
std::atomic<bool> stuck{false};
}  // namespace

void write_console(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    pollfd polled{descriptor, POLLOUT, 0};
    const int ready = ::poll(&polled, 1, stuck ? 0 : kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    stuck = ready == 0;
    if (ready <= 0) return;
    // A pipe that is ready takes so much without blocking.
    const ssize_t n = ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace distdl
