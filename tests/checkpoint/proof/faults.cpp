// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <map>
#include <mutex>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/proof/power_model.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {
using Fault = FailingFileSystem::Fault;

using Call = FailingFileSystem::Call;

struct Way {
  const char* name;
  Fault fault;
  int number = EIO;
  Call only = Call::any;
  bool often = true;  ///< also from some operation on
};
constexpr Way kWays[] = {{"lost pages", Fault::lost_pages, EIO, Call::sync, false},
                         {"short write", Fault::short_write, EIO, Call::write},
                         {"failing close", Fault::failing_close, EIO, Call::close},
                         {"EIO", Fault::error, EIO},
                         {"ENOSPC", Fault::error, ENOSPC},
                         {"EDQUOT", Fault::error, EDQUOT},
                         {"EINTR", Fault::error, EINTR}};

/// An error must be the same on all ranks, and name the file and the cause.
std::string judge_errors(const std::vector<std::string>& errors, const std::filesystem::path& root, const Way& way) {
  for (const std::string& error : errors)
    if (error != errors[0]) return "ranks disagree: \"" + errors[0] + "\" and \"" + error + "\"";
  if (errors.empty() || errors[0].empty()) return "";
  bool names = errors[0].find(root.string()) != std::string::npos;
  bool tells = errors[0].find(strerrorname_np(way.number)) != std::string::npos;
  return names && tells ? "" : "an error names not both file and cause: " + errors[0];
}

struct Attempt {
  bool struck = false;
  std::string problem;
};

Attempt attempt(const Story& story, const Way& way, int at, bool persistent) {
  TemporaryFolder root;
  story.before(root.path());
  FailingFileSystem files({way.fault, at, persistent, way.number, story.old_kernel, {}, way.only});
  Promise promise = story.start;
  Attempt result;
  {
    Run run(root.path(), story.world, files, [&](const std::string& mark) { note(promise, mark); });
    story.tell(run);
    result = {files.struck(), judge_errors(run.errors(), root.path(), way)};
    if (!result.struck || !result.problem.empty()) return result;
    // Training goes on: the same run saves its next step as soon as the disk is well.
    files.heal();
    if (!run.take("later") || !run.save({7, 77})) result.problem = "the next save fails: " + run.errors()[0];
  }
  if (result.problem.empty()) result.problem = judge(root.path(), promise);
  return result;
}

/// Another rank's file is gone, or cut, when rank 0 looks for it: as if the folder were not the same one everywhere.
class VanishingFileSystem final : public FileSystem {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    int descriptor = FileSystem::open(path, flags, mode);
    std::lock_guard lock(mutex_);
    if (std::string_view(path).ends_with("node0001.h5") && (flags & O_RDWR)) written_[descriptor] = path;
    return descriptor;
  }
  int close(int descriptor) override {
    std::lock_guard lock(mutex_);
    auto found = written_.find(descriptor);
    if (found != written_.end()) ::unlink(found->second.c_str());
    written_.erase(descriptor);
    return FileSystem::close(descriptor);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::string> written_;
};

std::string attempt_with_vanishing_file() {
  TemporaryFolder root;
  Story story = new_step(2);
  story.before(root.path());
  VanishingFileSystem files;
  Promise promise = story.start;
  tell(story, root.path(), files, [&](const std::string& mark) { note(promise, mark); });
  return judge(root.path(), promise);
}
}  // namespace

ProofResult prove_faults(const Story& story, const Effort& effort) {
  ProofResult verdict;
  auto enough = [&] { return effort.stop_at_first && !verdict.broken.empty(); };
  verdict.add(attempt_with_vanishing_file(), "a file that vanishes");
  for (const Way& way : kWays)
    for (bool persistent : {false, true}) {
      if ((persistent && !way.often) || (!effort.only_fault.empty() && effort.only_fault != way.name)) continue;
      for (int at = 0; !enough(); at += effort.stride) {
        Attempt result = attempt(story, way, at, persistent);
        if (!result.struck) break;
        ++verdict.cases;
        verdict.add(result.problem,
                    fmt::format("{}: {} at operation {}{}", story.name, way.name, at, persistent ? " and after" : ""));
      }
    }
  return verdict;
}

namespace {
/// Cannot write LATEST, which is only a hint: nothing may depend on it.
class HintlessFileSystem final : public FailingFileSystem {
 public:
  using FailingFileSystem::FailingFileSystem;
  int open(const char* path, int flags, mode_t mode) override {
    if (std::string_view(path).find("LATEST") != std::string_view::npos) return errno = EDQUOT, -1;
    return FailingFileSystem::open(path, flags, mode);
  }
};
}  // namespace

ProofResult prove_fault_and_power_loss(const Effort& effort) {
  ProofResult verdict;
  Story story = failed_then_saved_again();
  for (int at = 0;; at += effort.stride) {
    TemporaryFolder root;
    story.before(root.path());
    RecordingFileSystem recorder(root.path());
    HintlessFileSystem files({.fault = Fault::error, .at = at, .number = EIO}, recorder);
    tell(story, root.path(), files, [&](const std::string& mark) { recorder.mark(mark); });
    if (!files.struck() || (effort.stop_at_first && !verdict.broken.empty())) return verdict;
    Recording recording = recorder.recording();
    PowerModel model(recording);
    Promise promise = story.start;
    for (std::size_t i = 0; i < recording.operations.size(); ++i) {
      const Operation& operation = recording.operations[i];
      if (operation.kind != Operation::Kind::mark) continue;
      note(promise, operation.name);
      TemporaryFolder scratch;
      materialise(model.disk_after(model.greatest_loss(i + 1)), scratch.path() / "checkpoints");
      verdict.add(judge(scratch.path() / "checkpoints", promise),
                  fmt::format("EIO at operation {}, power lost after \"{}\"", at, operation.name));
      ++verdict.cases;
    }
  }
}

}  // namespace distdl::checkpoint::proof
