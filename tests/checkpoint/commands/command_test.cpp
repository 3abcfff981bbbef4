// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: what all subcommands have in common.
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/commands/command_fixture.hpp"
#include <distdl/base/checksum.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

TEST_F(CheckpointCommand, OneCheckpointIsNamedByStepOrTag) {
  EXPECT_THAT(run("tag 10 best " + run_.path().string()).out, HasSubstr("step 10: best"));
  for (const char* name : {"@10", "@best"}) {
    EXPECT_THAT(run("show " + run_.path().string() + name).out, HasSubstr("step     10"));
    EXPECT_THAT(run("verify " + root.string() + name).out, HasSubstr(step_folder_name(Step(10)) + ": ok"));
    EXPECT_THAT(run("digest " + root.string() + name).out, HasSubstr("step 10 "));
  }
  EXPECT_EQ(run("show " + root.string() + "@11").code, 3);
  EXPECT_EQ(run("show " + root.string() + "@nobody").code, 3);
  EXPECT_THAT(run("ls " + root.string()).out, testing::ContainsRegex(" best\n"));
}

/// Gives a checkpoint a manifest of a format that comes after ours.
void make_newer(const fs::path& folder) {
  std::ifstream in(folder / kManifestName);
  std::string line;
  std::getline(in, line);
  auto document = nlohmann::json::parse(line);
  document["format"] = 99;
  std::string text = document.dump() + "\n";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  std::ofstream(folder / kManifestName) << text << "sha256 " << hash.hex() << "\n";
}

TEST_F(CheckpointCommand, ANewerFormatIsIncompatible) {
  make_newer(newest);
  EXPECT_THAT(run("ls " + root.string()).out, HasSubstr("20  incompatible: "));
  Result verified = run("verify " + root.string());
  EXPECT_EQ(verified.code, 4);
  EXPECT_THAT(verified.out,
              testing::AllOf(HasSubstr(step_folder_name(Step(10)) + ": ok"), HasSubstr(": incompatible")));
  // A restart would not go back either.
  SingleProcessGroup alone;
  Store store(root, {});
  EXPECT_THROW(store.newest_valid(alone), StorageError);
  Result why = run("why 10 " + root.string());
  EXPECT_EQ(why.code, 0);
  EXPECT_THAT(why.out, testing::AllOf(HasSubstr("step 10: older"), HasSubstr("no checkpoint: it fails at step 20")));
  EXPECT_EQ(nlohmann::json::parse(run("why 20 --json " + root.string()).out)["restart_ends_at"], 20);
  EXPECT_EQ(run("why 20 " + root.string()).code, 4);
}

TEST_F(CheckpointCommand, WrongUseIsToldInWords) {
  EXPECT_EQ(run("ls " + newest.string()).code, 64);  // one checkpoint is no folder of them
  EXPECT_EQ(run("gc " + newest.string()).code, 64);
  EXPECT_EQ(run("tag 20 best " + newest.string()).code, 64);
  EXPECT_EQ(run("verify " + (newest / kManifestName).string()).code, 64);
  for (const char* step : {"x", "1x", "-1", "99999999999999999999"})
    EXPECT_EQ(run(fmt::format("why {} {}", step, root.string())).code, 64) << step;
  EXPECT_EQ(run(fmt::format("export --deflate {} {}/x.safetensors", root.string(), run_.path().string())).code, 64);
  EXPECT_EQ(run(fmt::format("export --format hdf5 {} {}/x", root.string(), run_.path().string())).code, 64);
}

TEST_F(CheckpointCommand, ErrorsSayWhatToDo) {
  EXPECT_THAT(run("show " + root.string() + "@banana").error,
              HasSubstr(fmt::format("tagged \"banana\"; \"distdl checkpoint ls {}\"", root.string())));
  EXPECT_THAT(run("ls /does/not/exist").error, HasSubstr("\"/does/not/exist\"; give a run folder (run.dir)"));
  TemporaryFolder empty;
  for (const char* action : {"show ", "verify "})
    EXPECT_THAT(run(action + empty.path().string()).error,
                testing::AllOf(HasSubstr("names such as step-000000000100"), HasSubstr("run.dir")));
  for (const auto& [value, problem] :
       {std::pair("x", "\"x\" is not a whole number"), std::pair("1", "a whole number, at least 2, was expected"),
        std::pair("2.5", "\"2.5\" is not a whole number"),
        std::pair("99999999999999999999", "99999999999999999999 is too large")})
    EXPECT_THAT(run(fmt::format("gc --keep {} {}", value, root.string())).error, HasSubstr(problem)) << value;
  EXPECT_THAT(run("gc --keep-every -1 " + root.string()).error, HasSubstr("a whole number, at least 0, was expected"));
  for (const char* format : {"safetensors", "npz", "view"}) {
    Result result = run(fmt::format("export --format {} {} /does/not/exist/w", format, root.string()));
    EXPECT_EQ(result.code, 74);
    EXPECT_THAT(result.error,
                HasSubstr("\"/does/not/exist/w\": there is no folder \"/does/not/exist\"; create it first"));
  }
  const std::string name(255, 'w');  // the unfinished file's would be longer
  EXPECT_THAT(run(fmt::format("export --format npz {} {}/{}", root.string(), run_.path().string(), name)).error,
              HasSubstr(name + "\": File name too long"));
}

TEST_F(CheckpointCommand, MissingFoldersAreIncomplete) {
  TemporaryFolder empty;
  for (const char* action : {"show ", "verify ", "digest "}) EXPECT_EQ(run(action + empty.path().string()).code, 3);
  EXPECT_THAT(run("ls " + empty.path().string()).out, HasSubstr("there is no checkpoint in"));
  EXPECT_EQ(run("ls /does/not/exist").code, 3);
}

}  // namespace
}  // namespace distdl::checkpoint
