// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include <dlfcn.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/plugin.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/libslurm.hpp>
#include <distdl/slurm/queries/plugin_interface.hpp>

namespace distdl::slurm {
namespace {
struct Reply {
  Answer answer = Answer::failed;
  std::string text;
};
}  // namespace

/// The one thread that calls libslurm. Nobody waits for its end: it may be inside libslurm for ever.
class Libslurm::Thread {
 public:
  /// The reply; nothing if it does not come within `limit`, or the thread has not done with an earlier question.
  std::optional<Reply> ask(const std::string& kind, const std::string& name, Milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (question_) return std::nullopt;
    reply_.reset();
    question_.emplace(kind, name);
    changed_.notify_all();
    if (!changed_.wait_for(lock, limit, [this] { return reply_.has_value(); })) return std::nullopt;
    return std::exchange(reply_, {});
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  static std::shared_ptr<Thread> start(AnswerFunction answer) {
    auto self = std::make_shared<Thread>();
    const SignalsBlocked in_thread;  // they are for the threads that wait for them
    try {
      std::thread([self, answer] { self->run(answer); }).detach();
    } catch (const std::system_error& error) {
      log(Severity::debug, "no thread for libslurm: {}", error.what());
      self.reset();
    }
    return self;
  }

 private:
  void run(AnswerFunction answer) {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return ended_ || (question_ && !reply_); });
      if (ended_) return;
      const auto [kind, name] = *question_;
      lock.unlock();
      char* text = nullptr;
      Reply reply{static_cast<Answer>(answer(kind.c_str(), name.c_str(), &text)), text ? text : ""};
      std::free(text);
      lock.lock();
      reply_ = std::move(reply);
      question_.reset();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::pair<std::string, std::string>> question_;  ///< from when it is asked until it is answered
  std::optional<Reply> reply_;
  bool ended_ = false;
};

namespace {
struct Functions {
  std::string release;
  AnswerFunction answer = nullptr;
};

/// Nothing that can be called if the plug-in cannot be loaded. It is never closed: libslurm keeps threads and atexit
/// handlers. Slurm's own plug-ins (auth_munge.so) take its symbols from the global ones.
Functions load(const std::filesystem::path& plugin) {
  void* library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* release = library ? ::dlsym(library, kReleaseFunction) : nullptr;
  void* answer = release ? ::dlsym(library, kAnswerFunction) : nullptr;
  if (answer) return {reinterpret_cast<ReleaseFunction>(release)(), reinterpret_cast<AnswerFunction>(answer)};
  log(Severity::debug, "cannot load \"{}\": {}", plugin.string(), loader_error());
  return {};
}
}  // namespace

Libslurm::Libslurm(const std::filesystem::path& plugin, std::unique_ptr<Queries> otherwise, Milliseconds limit)
    : otherwise_(std::move(otherwise)), limit_(limit) {
  const Functions functions = load(plugin);
  if (functions.answer) thread_ = Thread::start(functions.answer);
  if (thread_) release_ = functions.release;
}

Libslurm::~Libslurm() {
  if (thread_) thread_->end();
}

std::string Libslurm::description() const {
  return "libslurm " + release_;
}

std::optional<std::string> Libslurm::answer(const std::string& kind, const std::string& name) {
  const auto about = name.empty() ? kind : kind + " " + name;
  require<SchedulerError>(thread_ != nullptr, "cannot ask Slurm about {}: libslurm's plug-in cannot be used", about);
  auto reply = thread_->ask(kind, name, limit_);
  require<SchedulerError>(reply.has_value(), "cannot ask Slurm about {}: libslurm did not answer within {} s", about,
                          std::chrono::duration_cast<std::chrono::seconds>(limit_).count());
  if (reply->answer == Answer::unknown) return std::nullopt;
  require<SchedulerError>(reply->answer == Answer::found, "cannot ask Slurm about {}: libslurm says \"{}\"", about,
                          reply->text);
  return std::move(reply->text);
}

std::optional<JobRecord> Libslurm::job(const std::string& id) try {
  const auto text = answer("job", id);
  if (!text) return std::nullopt;
  auto record = job_in(*text, id);
  require<SchedulerError>(record.has_value(), "libslurm tells no state of job {}: \"{}\"", id, *text);
  return record;
} catch (const SchedulerError&) {
  if (!otherwise_) throw;
  return otherwise_->job(id);
}

std::optional<Partition> Libslurm::partition(const std::string& name) try {
  const auto text = answer("partition", name);
  return text ? partition_in(*text, name) : std::nullopt;
} catch (const SchedulerError&) {
  if (!otherwise_) throw;
  return otherwise_->partition(name);
}

Settings Libslurm::settings() try {
  return settings_in(answer("config", "").value_or(""));
} catch (const SchedulerError&) {
  if (!otherwise_) throw;
  return otherwise_->settings();
}

std::optional<std::string> Libslurm::batch_script(const std::string& id) try {
  auto text = answer("script", id);
  if (!text || text->empty()) return std::nullopt;
  return text;
} catch (const SchedulerError&) {
  if (!otherwise_) throw;
  return otherwise_->batch_script(id);
}

std::unique_ptr<Queries> best_queries() {
  auto commands = std::make_unique<Commands>();
  const auto plugin = find_plugin("libdistdl_slurm.so");
  if (!plugin) return commands;
  const auto release = Commands::release_if_usable();
  if (!release) return commands;
  auto libslurm = std::make_unique<Libslurm>(*plugin, std::make_unique<Commands>());
  if (libslurm->release() == *release) return libslurm;
  log(Severity::debug, "Slurm's commands are of release {}, its plug-in is of {}: the commands are used", *release,
      libslurm->release().empty() ? "none" : libslurm->release());
  return commands;
}

}  // namespace distdl::slurm
