// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/observe/export/live_histograms.hpp>
#include <distdl/observe/export/parameter_histograms.hpp>

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
  } catch (const Error& error) {
    // A run removes old checkpoints.
    if (std::filesystem::exists(read)) log(Severity::warning, "{}; TensorBoard gets no histograms of it", error.what());
  }
  return "";
}
}  // namespace

void LiveHistograms::saved() {
  if (every_ == 0 || count_++ % every_ != 0 || records_.valid()) return;
  records_ = std::async(std::launch::async, histograms_of_newest, folder_, stop_.get_token());
}

std::string LiveHistograms::take(Clock::duration wait) {
  if (!records_.valid() || records_.wait_for(wait) != std::future_status::ready) return "";
  return records_.get();
}

}  // namespace distdl::observe
