// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/agent/inspector.hpp>
#include <distdl/agent/program_look.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kPeriod{1000};
constexpr Milliseconds kStackTimeout{300};
constexpr Milliseconds kAllPrograms{5000};
constexpr Milliseconds kLongestEnd{500};

std::string answer_of(const InspectedNode& node) {
  NodeReport report{node.host, node.node, node.note, {}, node.nodes};
  const auto programs = Deadline::after(kAllPrograms);
  for (const auto& rank : node.ranks) {
    report.ranks.push_back(look_at(rank, kStackTimeout));
    const auto left = std::chrono::duration_cast<Milliseconds>(programs.remaining());
    if (auto program = look_at_program(rank.process, std::max(left, Milliseconds(1))))
      report.ranks.back().threads.push_back(*std::move(program));
  }
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
    const auto file = question / fmt::format("{}-{}.json", host_name(), ::getpid());
    replace_text(real_file_system(), file, answer_of(now));
  } catch (const std::exception& error) {
    log(Severity::warning, "cannot answer in \"{}\": {}", question.string(), error.what());
  }

  std::vector<std::string> questions() const try {
    FileDescriptor opened = open_folder(folder.c_str());
    return opened ? names_in(std::move(opened), folder) : std::vector<std::string>();
  } catch (const FileError&) {
    return {};  // who asked has just removed the folder
  }

  void answer_all(const InspectedNode& now) {
    std::set<std::string> there;
    for (const std::string& name : questions()) {
      std::error_code none;
      if (!std::filesystem::is_directory(std::filesystem::symlink_status(folder / name, none))) continue;
      there.insert(name);
      if (!answered.contains(name)) answer(folder / name, now);
    }
    answered = std::move(there);
  }
};

Inspector::Inspector(const std::filesystem::path& run_folder) : shared_(std::make_shared<Shared>()) {
  shared_->folder = questions_folder(resolved(run_folder));
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
