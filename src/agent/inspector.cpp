// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <distdl/agent/inspector.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kPeriod{1000};
constexpr Milliseconds kStackTimeout{300};
constexpr Milliseconds kLongestEnd{500};

/// It has its name only when it is whole.
void write_answer(const std::filesystem::path& folder, const std::string& text) {
  const auto name = fmt::format("{}-{}", host_name(), ::getpid());
  const auto unfinished = folder / ("." + name), file = folder / (name + ".json");
  const FileDescriptor out(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!out) return log(Severity::debug, "cannot answer in \"{}\": {}", folder.string(), errno_text(errno));
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(out.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return log(Severity::debug, "cannot answer in \"{}\": {}", folder.string(), errno_text(errno));
    done += static_cast<std::size_t>(count);
  }
  std::error_code error;
  std::filesystem::rename(unfinished, file, error);
}

std::string answer_of(const InspectedNode& node) {
  NodeReport report{node.host, node.node, node.note, {}, node.nodes};
  for (const auto& rank : node.ranks) report.ranks.push_back(look_at(rank, kStackTimeout));
  return to_text(report);
}
}  // namespace

std::filesystem::path questions_folder(const std::filesystem::path& run_folder) {
  return run_folder / "why";
}

/// Kept by the thread, which may outlive the Inspector.
struct Inspector::Shared {
  std::filesystem::path folder;
  std::mutex mutex;
  std::condition_variable changed;
  InspectedNode node;
  bool ends = false, has_ended = false;
  std::set<std::string> answered;  ///< used by the thread

  void work() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kPeriod, [this] { return ends; })) {
      const InspectedNode now = node;
      lock.unlock();
      answer_all(now);
      lock.lock();
    }
    has_ended = true;
    changed.notify_all();
  }

  static void answer(const std::filesystem::path& question, const InspectedNode& now) try {
    write_answer(question, answer_of(now));
  } catch (const std::exception& error) {
    log(Severity::warning, "cannot answer in \"{}\": {}", question.string(), error.what());
  }

  void answer_all(const InspectedNode& now) {
    std::set<std::string> there;
    std::error_code error;
    for (std::filesystem::directory_iterator one(folder, error), end; !error && one != end; one.increment(error)) {
      const std::string name = one->path().filename().string();
      std::error_code none;
      if (one->symlink_status(none).type() != std::filesystem::file_type::directory) continue;
      there.insert(name);
      if (!answered.contains(name)) answer(one->path(), now);
    }
    if (!error || error == std::errc::no_such_file_or_directory) answered = std::move(there);
  }
};

Inspector::Inspector(const std::filesystem::path& run_folder) : shared_(std::make_shared<Shared>()) {
  shared_->folder = questions_folder(run_folder);
  try {
    std::thread([shared = shared_] { shared->work(); }).detach();
  } catch (const std::system_error& error) {
    shared_->has_ended = true;
    log(Severity::warning, "\"distdl why\" will get no answer from here: {}", error.what());
  }
}

Inspector::~Inspector() {
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kLongestEnd, [this] { return shared_->has_ended; });
}

void Inspector::update(InspectedNode node) {
  const std::lock_guard lock(shared_->mutex);
  shared_->node = std::move(node);
}

}  // namespace distdl::agent
