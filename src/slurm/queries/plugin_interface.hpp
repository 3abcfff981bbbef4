// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that libdistdl_slurm.so exports. libslurm is GPL, changes its ABI with each release, and exits the
// process where it finds no slurm.conf. Hence it is in a shared object of its own, opened only where Slurm's commands
// of the same release work (libslurm.cpp), never in a rank.
namespace distdl::slurm {

/// Release, "22.05", of the libslurm that it was compiled for. The loader gives it no other one: the number in
/// libslurm's file name changes with each release.
using ReleaseFunction = const char* (*)();
inline constexpr const char* kReleaseFunction = "distdl_slurm_release";

/// `kind`: "job", "partition", "config" or "script"; `name`: of the job (as scontrol calls it) or partition. `text`
/// becomes what scontrol would print, or why it fails, for std::free(). One thread only.
enum class Answer : int { found, unknown, failed };
using AnswerFunction = int (*)(const char* kind, const char* name, char** text);
inline constexpr const char* kAnswerFunction = "distdl_slurm_answer";

}  // namespace distdl::slurm
