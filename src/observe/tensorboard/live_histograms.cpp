// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <exception>
#include <memory>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

#include <distdl/base/log.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/observe/tensorboard/live_histograms.hpp>
#include <distdl/observe/tensorboard/parameter_histograms.hpp>

namespace distdl::observe {
namespace {
std::string histograms_of_newest(const std::filesystem::path& folder, const std::stop_token& stop) {
  // On Linux this means the one thread. It takes what training leaves, if that works.
  [[maybe_unused]] const int done = ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
  std::filesystem::path read;
  try {
    const auto checkpoint = checkpoint::open(folder);
    read = checkpoint.folder;
    return parameter_histograms(checkpoint, stop);
  } catch (const std::exception& error) {
    std::error_code ignored;
    // A run removes old checkpoints.
    if (std::filesystem::exists(read, ignored))
      log(Severity::warning, "{}; TensorBoard gets no histograms of it", error.what());
  }
  return "";
}
}  // namespace

LiveHistograms::~LiveHistograms() {
  using namespace std::chrono_literals;
  if (!thread_.joinable()) return;
  stop_.request_stop();
  if (records_.wait_for(1s) == std::future_status::ready) {
    thread_.join();
    return;
  }
  log(Severity::warning, "reading a checkpoint below \"{}\" does not end; TensorBoard gets no histograms of it",
      folder_.string());
  thread_.detach();
}

void LiveHistograms::saved() {
  if (every_ == 0 || count_++ % every_ != 0 || thread_.joinable()) return;
  const SignalsBlocked in_thread;  // they are for the threads that wait for them
  auto records = std::make_shared<std::promise<std::string>>();
  try {
    thread_ = std::thread([records, folder = folder_, stop = stop_.get_token()] {
      records->set_value(histograms_of_newest(folder, stop));
    });
    records_ = records->get_future();
  } catch (const std::system_error& error) {
    log(Severity::warning, "no thread can be started: {}; TensorBoard gets no histograms of a checkpoint",
        error.what());
  }
}

std::string LiveHistograms::take(Clock::duration wait) {
  if (!thread_.joinable() || records_.wait_for(wait) != std::future_status::ready) return "";
  thread_.join();
  return records_.get();
}

}  // namespace distdl::observe
