// SPDX-License-Identifier: Apache-2.0
#include <distdl/submit/lint/findings.hpp>

// Lints of the folder that the run writes to.
namespace distdl::submit {
namespace {
double gibibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

void lint_place(const BatchScript& script, const RunFolderFacts& folder, Findings& findings) {
  const auto nodes = script.options.number("nodes");
  const bool has_several = script.options.has("nodes") && (!nodes || *nodes > 1);  // a range counts as several
  const std::string path = folder.folder.string();
  if (folder.kind == FolderKind::memory || folder.is_temporary) {
    findings.add("folder-of-one-node", 0,
                 "the run folder \"{}\" lies {}; {}, and what is there is lost with its node: choose a run.dir on the "
                 "file system that all nodes share",
                 path,
                 folder.kind == FolderKind::memory ? "in memory (" + folder.file_system + ")"
                                                   : "where each node has a folder of its own",
                 has_several ? "the other nodes do not see it" : "a restart on another node does not see it");
    if (has_several) findings.set_level(LintLevel::error);
  } else if (folder.kind == FolderKind::disk) {
    findings.add(
        "folder-of-one-node", 0,
        "the run folder \"{}\" lies on a disk of this machine ({}), unless this is the file server; all nodes of "
        "the job must see it: choose a run.dir on the file system that they share",
        path, folder.file_system);
    if (!has_several) findings.set_level(LintLevel::note);
  }
}

void lint_room(const RunFolderFacts& folder, Findings& findings) {
  if (!folder.free_bytes || !folder.checkpoint_bytes) return;
  const std::uint64_t needed = *folder.checkpoint_bytes * (folder.checkpoints_are_there ? 1 : 2);
  if (*folder.free_bytes < needed)
    findings.add(
        "folder-full", 0,
        "the run folder \"{}\" has {:.2f} GiB free, but {} of {:.2f} GiB {} needed; make room, or choose another "
        "run.dir",
        folder.folder.string(), gibibytes(*folder.free_bytes),
        folder.checkpoints_are_there ? "one more checkpoint" : "two checkpoints", gibibytes(*folder.checkpoint_bytes),
        folder.checkpoints_are_there ? "is" : "are");
}
}  // namespace

void lint_folder(const BatchScript& script, const LintFacts& facts, Findings& findings) {
  if (!facts.folder) return;
  lint_place(script, *facts.folder, findings);
  lint_room(*facts.folder, findings);
  if (facts.folder->is_world_readable)
    findings.add("folder-world-readable", 0,
                 "everybody on this machine may read the run folder \"{0}\"; if that is not meant: chmod o-rwx {0}",
                 facts.folder->folder.string());
}

}  // namespace distdl::submit
