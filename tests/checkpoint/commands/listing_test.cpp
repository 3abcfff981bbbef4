// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint: ls, show, digest.
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/checkpoint/commands/command_fixture.hpp"
#include <distdl/checkpoint/format/manifest.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;
using testing::MatchesRegex;

TEST_F(CheckpointCommand, LsListsAllAndMarksDamage) {
  fs::remove(newest / kManifestName);
  EXPECT_THAT(run("ls " + root.string()).out,
              testing::AllOf(HasSubstr("\n          10 "), HasSubstr("20  incomplete: ")));
  auto rows = nlohmann::json::parse(run("ls --json " + root.string()).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["world_size"], 2);
  EXPECT_EQ(rows[1]["verdict"], "incomplete");
  EXPECT_THAT(rows[1]["problem"].get<std::string>(), HasSubstr("has no MANIFEST"));
}

TEST_F(CheckpointCommand, ShowTellsTensorsAndState) {
  EXPECT_THAT(
      run("show " + run_.path().string()).out,
      testing::AllOf(HasSubstr("step     20\nstart    2\n"), HasSubstr("parameter/conv1.weight  f32    (8, 3, 5, 5)"),
                     testing::ContainsRegex("  data.cursor +\"1234\"\n")));
  auto document = nlohmann::json::parse(run("show --json " + root.string() + "/").out);
  EXPECT_EQ(document["state"]["data.cursor"], "1234");
  EXPECT_EQ(document["tensors"][0]["shape"], (std::vector<int>{8, 3, 5, 5}));
  EXPECT_EQ(document["start"], 2);
}

TEST_F(CheckpointCommand, NamesCannotSteerATerminal) {
  const std::string odd = (run_.path() / "odd\x1b]0;title\a").string();
  fs::rename(root, odd);
  for (const std::string words : {"show '{}'", "verify --quick '{}'", "diff '{}@10' '{}@20'", "ls '{}/none'"}) {
    std::string filled = words;
    for (auto at = filled.find("{}"); at != std::string::npos; at = filled.find("{}")) filled.replace(at, 2, odd);
    const auto result = run(filled);
    EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << words << result.out;
    if (result.code == 0) {
      EXPECT_THAT(result.out, HasSubstr(R"(odd\x1b]0;title\x07)")) << words;
    }
  }
  fs::remove(fs::path(odd) / step_folder_name(Step(20)) / kManifestName);
  EXPECT_THAT(run("ls '" + odd + "'").out, HasSubstr(R"(odd\x1b]0;title\x07)")) << "in what is wrong";
}

TEST_F(CheckpointCommand, ShowSaysWhereTheStartIsNotKnown) {
  Manifest manifest = load_manifest(real_file_system(), newest);
  manifest.start = 0;  // as of an older distdl
  spill(newest / kManifestName, to_text(manifest));
  EXPECT_THAT(run("show " + root.string()).out, HasSubstr("start    not known\n"));
  EXPECT_TRUE(nlohmann::json::parse(run("show --json " + root.string()).out)["start"].is_null());
}

TEST_F(CheckpointCommand, CompressedOnesAreShownComparedAndExported) {
  Sample sample = make_compressible(1);
  ASSERT_TRUE(all_empty(save_as(root, 2, Step(30), sample)));
  ASSERT_TRUE(all_empty(save_as(root, 2, Step(40), sample, true, {.compression = "shuffle+zstd"})));
  EXPECT_THAT(run("show " + root.string()).out, HasSubstr("MiB, compressed to "));
  EXPECT_THAT(run("show " + root.string() + "@30").out, testing::Not(HasSubstr("compressed")));
  auto document = nlohmann::json::parse(run("show --json " + root.string()).out);
  EXPECT_LT(document["stored_bytes"], document["plain_bytes"]);
  EXPECT_EQ(run("verify --deep " + root.string() + "@40").code, 0);
  EXPECT_EQ(run("diff " + root.string() + "@30 " + root.string() + "@40").code, 0);
  fs::path plain = run_.path() / "plain";
  ASSERT_TRUE(all_empty(save_as(plain, 1, Step(40), sample)));
  auto exported = [&](const fs::path& from, const std::string& format) {
    std::string file = (run_.path() / "exported").string();
    EXPECT_EQ(run("export " + from.string() + "@40 " + file + " --force --format " + format).code, 0) << format;
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  };
  for (const char* format : {"safetensors", "npz"}) EXPECT_EQ(exported(root, format), exported(plain, format));
  exported(root, "view");
}

TEST_F(CheckpointCommand, DigestIsOneLine) {
  Result all = run("digest " + root.string()), one = run("digest " + newest.string());
  EXPECT_THAT(all.out, MatchesRegex("step 20 sha256 [0-9a-f]{64}\n"));
  EXPECT_EQ(all.out, one.out);
  EXPECT_THAT(run("digest " + (root / step_folder_name(Step(10))).string()).out, HasSubstr(all.out.substr(8)));
  EXPECT_EQ(nlohmann::json::parse(run("digest --json " + root.string()).out)["step"], 20);
}

TEST_F(CheckpointCommand, TheNewestIsMeantEvenIfItIsDamaged) {
  fs::path file = run_.path() / "out";
  fs::remove(newest / kManifestName);
  for (const std::string action : {"show {}", "digest {}", "export {} {} --format npz", "diff {} {}@10"})
    EXPECT_EQ(
        run(fmt::format(fmt::runtime(action), root.string(), action[0] == 'd' ? root.string() : file.string())).code, 3)
        << action;
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(run("show " + root.string() + "@10").code, 0);
}

}  // namespace
}  // namespace distdl::checkpoint
