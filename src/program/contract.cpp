// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/program/contract.hpp>
#include <distdl/program/contract_lines.hpp>

namespace distdl::program {
namespace {
using namespace std::chrono_literals;

constexpr auto kPatience = 60s;     ///< for the processes of the ranks to agree on a question
constexpr auto kAnswerLimit = 10s;  ///< for the rank's process to answer a question

FileDescriptor connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  require(path.size() < sizeof address.sun_path, "{}=\"{}\" is longer than the path of a socket may be",
          kContractVariable, path);
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require_call<ConfigError>(socket.get() >= 0, "cannot make a socket");
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the way of the socket interface
  const int code = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  require(code == 0, "nobody answers at {}=\"{}\": {}; only \"distdl run\" sets this variable", kContractVariable, path,
          errno_text(errno));
  return socket;
}
std::atomic<pid_t> asking_process{0};

/// Those that the rank's process sends, and those of a forked child, do what they do without a handler.
void pass_over(int number, siginfo_t* info, void* /*context*/) {
  if (info->si_pid != ::getppid() && ::getpid() == asking_process) return;
  static_cast<void>(std::signal(number, SIG_DFL));
  static_cast<void>(std::raise(number));
}

/// Slurm may send a signal that asks to stop to all processes of a job step. It must not end a program that asks in
/// place of handling it.
void pass_over_signals_of_slurm() {
  asking_process = ::getpid();
  for (const int number : {SIGTERM, SIGUSR1, SIGUSR2}) {
    struct sigaction now {
    }, passes{};
    passes.sa_sigaction = &pass_over;
    passes.sa_flags = SA_SIGINFO | SA_RESTART;
    if (::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL)
      static_cast<void>(::sigaction(number, &passes, nullptr));  // at worst the signal ends the program
  }
}
}  // namespace

struct Contract::State {
  std::mutex mutex;
  FileDescriptor socket;
  pid_t owner = ::getpid();
  LineBuffer lines;
  bool is_gone = false;  ///< the rank's process has closed the socket
  std::int64_t calls = 0;
  bool is_asked = false;
  std::optional<std::int64_t> stop_at;
  bool left_is_known = false;
  std::optional<double> left;

  bool is_usable() const { return ::getpid() == owner && !is_gone; }

  void send(const FromProgram& message) {
    const std::string line = to_line(message);
    for (std::size_t sent = 0; sent < line.size() && !is_gone;) {
      const ssize_t count = ::send(socket.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0)
        is_gone = true;
      else
        sent += static_cast<std::size_t>(count);
    }
  }

  void take(const ToProgram& message) {
    is_asked = is_asked || message.is_asked || message.stop_at;
    if (message.stop_at) stop_at = message.stop_at;
    if (!message.tells_left) return;
    left = message.left;
    left_is_known = true;
  }

  /// Reads what is there; waits for something until `deadline`, if it is given.
  void read(const std::optional<Deadline>& deadline = {}) {
    while (!is_gone) {
      std::array<char, 4096> bytes{};
      const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        if (!deadline || deadline->expired()) return;
        pollfd polled{socket.get(), POLLIN, 0};
        const auto left_time = std::chrono::ceil<Milliseconds>(deadline->remaining()).count();
        ::poll(&polled, 1, static_cast<int>(left_time));
        if (polled.revents == 0 && deadline->expired()) return;
        continue;
      }
      if (count <= 0) {
        is_gone = true;
        return;
      }
      lines.add({bytes.data(), static_cast<std::size_t>(count)}, [this](std::string_view line) {
        if (const auto message = to_program(line)) take(*message);
      });
      if (deadline) return;
    }
  }
};

Contract::Contract(std::unique_ptr<State> state) : state_(std::move(state)) {}
Contract::~Contract() = default;

std::unique_ptr<Contract> Contract::from_environment() {
  const auto path = env(kContractVariable);
  if (!path) return nullptr;
  auto state = std::make_unique<State>();
  state->socket = connect_to(*path);
  return std::unique_ptr<Contract>(new Contract(std::move(state)));
}

bool Contract::should_stop() {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (::getpid() != state.owner) return false;
  if (++state.calls == 1) pass_over_signals_of_slurm();
  // Told before anything is read: if this question misses the request, the rank's process knows of the question.
  if (!state.stop_at) state.send({.asks = state.calls == 1, .call = state.calls});
  state.read();
  const auto deadline = Deadline::after(kPatience);
  while (state.is_asked && !state.stop_at && !state.is_gone && !deadline.expired()) state.read(deadline);
  if (state.stop_at) return state.calls >= *state.stop_at;
  return state.is_asked || state.is_gone;
}

void Contract::progress(std::int64_t step, std::optional<std::int64_t> steps, std::span<const NamedValue> metrics) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_usable()) state_->send({.step = step, .steps = steps, .metrics = {metrics.begin(), metrics.end()}});
}

void Contract::saved(std::int64_t step, std::optional<double> seconds) {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_usable()) state_->send({.saved = step, .save_seconds = seconds});
}

void Contract::finished() {
  const std::lock_guard lock(state_->mutex);
  if (state_->is_usable()) state_->send({.finished = true});
}

std::optional<double> Contract::seconds_left() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->is_usable()) return std::nullopt;
  state_->left_is_known = false;
  state_->send({.asks_left = true});
  const auto deadline = Deadline::after(kAnswerLimit);
  while (!state_->left_is_known && !state_->is_gone && !deadline.expired()) state_->read(deadline);
  return state_->left_is_known ? state_->left : std::nullopt;
}

}  // namespace distdl::program
