// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: verify.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <unistd.h>

#include "tests/checkpoint/commands/command_fixture.hpp"
#include <distdl/checkpoint/format/manifest.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

TEST_F(CheckpointCommand, VerifyAnswersWithExitCodes) {
  EXPECT_EQ(run("verify " + root.string()).code, 0);
  fs::remove(newest / "node0000.h5");
  EXPECT_EQ(run("verify " + root.string()).code, 3);
  EXPECT_EQ(run("verify " + (root / step_folder_name(Step(10))).string()).code, 0);
  fs::resize_file(newest / "node0001.h5", 7);
  Result result = run("verify --json " + root.string());
  EXPECT_EQ(result.code, 2);
  auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document[0]["ok"], true);
  EXPECT_EQ(document[1]["ok"], false);
  EXPECT_EQ(document[1]["findings"][1]["file"], "node0001.h5");
}

/// What the command prints into a pipe that is full after 4 KiB; `work` is done when it has begun to print.
std::string print_slowly(const std::string& arguments, const std::function<void()>& work, int& code) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  EXPECT_GE(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  ::close(ends[1]);
  std::thread command([&] {
    app::CommandLine line("distdl", "");
    app::add_checkpoint_command(line);
    try {
      line.call("checkpoint " + arguments);
    } catch (const app::Ended& end) {
      code = end.code();
    }
    std::fflush(stdout);
    ::dup2(before, STDOUT_FILENO);  // closes the pipe's end
  });
  std::string out(1, ' ');
  EXPECT_EQ(::read(ends[0], out.data(), 1), 1);
  work();
  char piece[4096];
  for (ssize_t n; (n = ::read(ends[0], piece, sizeof piece)) > 0;) out.append(piece, static_cast<std::size_t>(n));
  command.join();
  ::close(ends[0]);
  ::close(before);
  return out;
}

TEST_F(CheckpointCommand, VerifyDoesNotCountWhatARunCollectsMeanwhile) {
  fs::path deep = run_.path();
  for (char letter : {'a', 'b', 'c', 'd'}) deep /= std::string(250, letter);
  for (int step = 1; step <= 12; ++step)  // a line of more than 1000 bytes each: far more than the pipe holds
    ASSERT_TRUE(all_empty(save_as(deep, 1, Step(step), make_sample(1), false, {.keep = 12})));
  int code = 0;
  std::string out = print_slowly(
      "verify " + deep.string(), [&] { fs::remove_all(deep / step_folder_name(Step(12))); }, code);
  EXPECT_EQ(code, 0);
  EXPECT_THAT(out, testing::AllOf(HasSubstr(step_folder_name(Step(11)) + ": ok\n"),
                                  HasSubstr(step_folder_name(Step(12)) + ": deleted by a run meanwhile\n")));
}

std::size_t threads_of_this_process() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/task"), {}));
}
std::size_t most_threads_at_a_fork = 0;

/// A lock that another thread holds at a fork stays locked in the child, which then hangs.
TEST_F(CheckpointCommand, VerifyDeepForksOnlyWhileNoOtherThreadRuns) {
  const std::size_t before = threads_of_this_process();  // a sanitizer may have one of its own
  ASSERT_EQ(
      ::pthread_atfork([] { most_threads_at_a_fork = std::max(most_threads_at_a_fork, threads_of_this_process()); },
                       nullptr, nullptr),
      0);
  EXPECT_EQ(run("verify --deep " + root.string()).code, 0);
  EXPECT_EQ(most_threads_at_a_fork, before);
}

TEST_F(CheckpointCommand, VerifyNamesBlockAndChecksums) {
  fs::path file = newest / "node0000.h5";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  auto manifest = load_manifest(real_file_system(), newest);
  const StoredBox& box = manifest.tensors[0].boxes[0];
  stream.seekp(static_cast<std::streamoff>(box.offset));
  stream.write("XXXX", 4);
  stream.close();
  EXPECT_EQ(run("verify --quick " + root.string()).code, 0);  // sizes are right
  for (const std::string depth : {"", "--deep "}) {
    Result result = run("verify --json " + depth + root.string());
    EXPECT_EQ(result.code, 2);
    auto finding = nlohmann::json::parse(result.out)[1]["findings"][0];
    EXPECT_EQ(finding["file"], "node0000.h5");
    EXPECT_EQ(finding["tensor"], "momentum/conv1.weight");
    EXPECT_EQ(finding["block"], 0);
    EXPECT_EQ(finding["expected"], fmt::format("{:08x}", box.checksums[0]));
    EXPECT_THAT(finding["found"].get<std::string>(), testing::ContainsRegex("^[0-9a-f]{8}$"));
    EXPECT_NE(finding["found"], finding["expected"]);
  }
  fs::resize_file(file, 100);
  EXPECT_EQ(run("verify --quick " + root.string()).code, 2);
}

TEST_F(CheckpointCommand, VerifyNamesBothChecksumsOfAManifest) {
  std::fstream(newest / kManifestName) << "?";
  EXPECT_THAT(
      run("verify " + root.string()).out,
      testing::ContainsRegex("MANIFEST: its checksum is wrong: sha256 [0-9a-f]{64} expected, [0-9a-f]{64} found"));
  fs::resize_file(newest / kManifestName, 300);
  Result result = run("verify " + root.string());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("its last line is not a checksum"));
}

TEST_F(CheckpointCommand, VerifyDeepWantsNothingElseInTheFolder) {
  EXPECT_EQ(run("verify --deep " + root.string()).code, 0);
  std::ofstream(newest / "notes.txt") << "mine";
  EXPECT_EQ(run("verify " + root.string()).code, 0);
  Result result = run("verify --deep " + root.string());
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, HasSubstr("notes.txt\" is not part of the checkpoint"));
  EXPECT_EQ(run("verify --deep --quick " + root.string()).code, 64);
}

}  // namespace
}  // namespace distdl::checkpoint
