// SPDX-License-Identifier: Apache-2.0
#include <unordered_set>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/proof/power_model.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

Recording record(const Story& story) {
  TemporaryFolder root;
  story.before(root.path());
  RecordingFileSystem recorder(root.path());
  FailingFileSystem files({.old_kernel = story.old_kernel}, recorder);
  tell(story, root.path(), files, [&](const std::string& mark) { recorder.mark(mark); });
  Recording recording = recorder.recording();
  // Nothing may reach the disk behind the recorder's back.
  if (hash_of(recording.end) != hash_of(read_tree(root.path())))
    throw std::runtime_error("the folder is not what the recorded operations make of it");
  return recording;
}

/// Judges each distinct state of the disk once.
class Court {
 public:
  Court(const Story& story, const Effort& effort)
      : story_(story), effort_(effort), recording_(record(story)), model_(recording_) {}

  ProofResult hold() {
    int number = 0;
    model_.for_each_loss([&](const PowerModel::Loss& loss) {
      if (number++ % effort_.stride == 0) judge_loss(loss, "chosen");
    });
    for (std::size_t i = 0; i < effort_.random_cases; ++i) {
      std::uint64_t seed = effort_.first_seed + i;
      judge_loss(model_.random_loss(seed), fmt::format("seed {}", seed));
    }
    return std::move(verdict_);
  }

 private:
  Promise promise_at(std::size_t moment) const {
    Promise promise = story_.start;
    for (std::size_t i = 0; i < moment; ++i)
      if (recording_.operations[i].kind == Operation::Kind::mark) note(promise, recording_.operations[i].name);
    return promise;
  }

  void judge_loss(const PowerModel::Loss& loss, const std::string& how) {
    if (effort_.stop_at_first && !verdict_.broken.empty()) return;
    ++verdict_.cases;
    Tree disk = model_.disk_after(loss);
    Promise promise = promise_at(loss.moment);
    // The same disk under the same promise was judged already.
    std::size_t marks = 0;
    for (std::size_t i = 0; i < loss.moment; ++i) marks += recording_.operations[i].kind == Operation::Kind::mark;
    if (!seen_.insert(hash_of(disk) * 31 + marks).second) return;
    TemporaryFolder scratch;
    std::filesystem::path root = scratch.path() / "checkpoints";
    materialise(disk, root);
    verdict_.add(judge(root, promise), fmt::format("{}: power lost after {} of {} operations, {}", story_.name,
                                                   loss.moment, model_.moments() - 1, how));
  }

  const Story& story_;
  Effort effort_;
  Recording recording_;
  PowerModel model_;
  std::unordered_set<std::size_t> seen_;
  ProofResult verdict_;
};
}  // namespace

ProofResult prove_power_loss(const Story& story, const Effort& effort) {
  return Court(story, effort).hold();
}

}  // namespace distdl::checkpoint::proof
