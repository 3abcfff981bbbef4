// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/agent/beats.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl::agent {
namespace {
constexpr const char* kVariable = "DISTDL_BEATS";

bool is_pipe(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}
}  // namespace

std::unique_ptr<Beats> Beats::from_environment() {
  const auto descriptor = env_integer(kVariable);
  if (!descriptor) return nullptr;
  require(*descriptor > STDERR_FILENO && *descriptor < 1 << 20 && is_pipe(static_cast<int>(*descriptor)),
          "environment variable {}={} is no pipe: only \"distdl agent\" sets it", kVariable, *descriptor);
  return std::unique_ptr<Beats>(new Beats(static_cast<int>(*descriptor)));
}

Beats::Beats(int descriptor) : pipe_(descriptor), end_(::eventfd(0, EFD_CLOEXEC)) {
  const bool ready =
      end_ && ::fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 && ::fcntl(descriptor, F_SETFL, O_WRONLY | O_NONBLOCK) == 0;
  require_call<SchedulerError>(ready, "cannot send signs of life to the agent");
  thread_ = std::jthread([this] {
    pollfd ended{end_.get(), POLLIN, 0};
    do send();
    while (::poll(&ended, 1, static_cast<int>(kBeatPeriod.count())) <= 0);
  });
}

Beats::~Beats() {
  const std::uint64_t one = 1;
  while (::write(end_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Beats::step_done(Step step) {
  step_.store(step.value, std::memory_order_relaxed);
  send();
}

// A full pipe has signs enough, and without a reader the agent is gone: nothing to do about either.
void Beats::send() const {
  const std::int64_t step = step_.load(std::memory_order_relaxed);
  (void)!::write(pipe_.get(), &step, sizeof step);
}

BeatPipe::BeatPipe() {
  int ends[2];
  const bool made = ::pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0;
  require_call<SchedulerError>(made, "cannot make a pipe for the signs of life of a rank");
  reader_.reset(ends[0]);
  writer_.reset(ends[1]);
}

std::map<std::string, std::string> BeatPipe::variables() const {
  return {{kVariable, std::to_string(writer_.get())}};
}

std::optional<Step> BeatPipe::poll() {
  std::optional<Step> newest;
  for (std::int64_t step = 0;;) {
    const ssize_t count = ::read(reader_.get(), &step, sizeof step);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof step) return newest;
    newest = Step(step);
  }
}

}  // namespace distdl::agent
