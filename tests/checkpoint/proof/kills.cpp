// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <sys/wait.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

struct Death {
  bool killed = false;
  Promise promise;
};

/// Tells the story in a child that is killed before the given operation; its marks come through a pipe.
Death tell_and_die(const std::filesystem::path& root, const Story& story, int operation) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    FailingFileSystem files({.fault = FailingFileSystem::Fault::kill, .at = operation, .old_kernel = story.old_kernel});
    tell(story, root, files, [&](const std::string& mark) {
      std::string line = mark + "\n";
      if (::write(ends[1], line.data(), line.size()) < 0) ::_exit(2);
    });
    ::_exit(0);
  }
  ::close(ends[1]);
  Death death{false, story.start};
  FILE* marks = ::fdopen(ends[0], "r");
  for (char line[200]; std::fgets(line, sizeof(line), marks);) note(death.promise, line);
  std::fclose(marks);
  int status = 0;
  ::waitpid(child, &status, 0);
  death.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (!death.killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
    throw std::runtime_error(fmt::format("the child of \"{}\" failed by itself", story.name));
  return death;
}
}  // namespace

void ProofResult::add(const std::string& problem, const std::string& where) {
  if (!problem.empty() && broken.size() < 20) broken.push_back(where + ": " + problem);
}

ProofResult prove_kills(const Story& story, const Effort& effort) {
  ProofResult verdict;
  for (int operation = 0;; operation += effort.stride) {
    TemporaryFolder root;
    story.before(root.path());
    Death death = tell_and_die(root.path(), story, operation);
    verdict.add(judge(root.path(), death.promise),
                fmt::format("{}: killed before operation {}", story.name, operation));
    if (!death.killed || (effort.stop_at_first && !verdict.broken.empty())) return verdict;
    ++verdict.cases;
  }
}

}  // namespace distdl::checkpoint::proof
