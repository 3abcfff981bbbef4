// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/checkpoint/sample.hpp"
#include <distdl/files/file_system.hpp>

// What a run does to a checkpoint folder, told so that it can be recorded, killed, cut off at any point, and judged.
namespace distdl::checkpoint::proof {

/// One state of the little model, told from others by the seed of its bytes.
struct Version {
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  bool operator==(const Version&) const = default;
};
/// Its tensors. Those of seeds from 1000 on are large enough to be written past the page cache.
Sample sample_of(const Version& version);

/// Where the narrator writes what has happened outside of the disk: "save 3 33", "saved 3 33", "take child", "taken
/// child".
using Marker = std::function<void(const std::string&)>;

/// A run of `world` threads as ranks. Faults of the storage are part of a story: what fails is left out.
class Run {
 public:
  Run(std::filesystem::path root, int world, FileSystem& files, Marker mark);

  /// Takes the folder under this name; whether it could.
  bool take(const std::string& nonce);
  /// Large ones as Saver does it, out of a buffer with the checksums taken when it was filled.
  bool save(Version version);
  /// Waits for what goes on in the background. The folder must be taken again.
  void rest();
  /// Looks for the newest checkpoint, as a restart does: damaged ones go to quarantine.
  void look();
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  bool on_all_ranks(const std::function<void(Store&, Group&)>& work);

  void make_stores();

  std::filesystem::path root_;
  int world_;
  FileSystem& files_;
  Marker mark_;
  bool taken_ = false;                          ///< a run that could not take the folder saves nothing
  std::vector<std::unique_ptr<Store>> stores_;  ///< by rank
  std::vector<std::string> errors_;             ///< of the last call, by rank
};

/// What was promised, from the marks that were written until some moment.
struct Promise {
  Version kept{2, 2};                       ///< acknowledged last: this one or a later one must be found
  std::vector<Version> begun = {};          ///< and no others
  std::vector<std::string> owners{"test"};  ///< who may be named in OWNER
  std::size_t whole = 2;                    ///< at least so many whole checkpoints
  std::set<std::int64_t> damaged = {};      ///< steps that were so before
  /// LATEST may name a step that is not there: one that is being replaced where folders cannot be swapped.
  bool latest_may_dangle = false;
};

struct Story {
  std::string name;
  int world = 1;
  /// What lies in the folder before, made without faults; keeps its newest two: versions 1/1 and 2/2.
  std::function<void(const std::filesystem::path&)> before;
  std::function<void(Run&)> tell;
  Promise start = {};
  bool old_kernel = false;  ///< on a file system that can neither swap folders nor reserve room
};

/// From beginning to end, what goes on in the background included.
void tell(const Story& story, const std::filesystem::path& root, FileSystem& files, const Marker& mark);

Story new_step(int world);
Story same_step_again(int world);
Story large_step();
Story several_steps(int world);
Story damaged_newest();
Story damaged_and_not_seen();
/// On a file system without renameat2's flags: saving a step again may then fall back to the step before.
Story new_step_on_old_kernel();
Story same_step_on_old_kernel();
/// Nothing is deleted meanwhile, which would sync the root.
Story failed_then_saved_again();
std::vector<Story> all_stories();

inline void PrintTo(const Story& story, std::ostream* out) {
  *out << story.name;
}
void note(Promise& promise, const std::string& mark);

/// Restarts in this folder, as a new run would. Returns what is wrong, or nothing: the newest checkpoint found must be
/// one that was promised, with its very bytes; everything called step-* must be whole; OWNER and LATEST must be of one
/// piece; the next save must succeed.
std::string judge(const std::filesystem::path& root, const Promise& promise);

}  // namespace distdl::checkpoint::proof
