// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/runs/comparison.hpp>
#include <distdl/observe/kept_job.hpp>

namespace distdl::app {
namespace {
using ::testing::HasSubstr;

using Keys = std::map<std::string, std::string>;

ComparedRun run(const char* name, std::optional<Keys> job) {
  ComparedRun run{name, {}};
  run.job = std::move(job);
  return run;
}

TEST(Comparison, ReadsTheKeysOfAJob) {
  const auto keys = observe::keys_of_job("[run]\ndir = \"a = b\"\n\n[model]\n# hidden = [1]\nhidden = [16, 8]\n");
  EXPECT_EQ(keys, (Keys{{"run.dir", "\"a = b\""}, {"model.hidden", "[16, 8]"}}));
}

TEST(Comparison, TellsKeysThatDifferOrAreMissing) {
  const std::vector<ComparedRun> runs{
      run("a", Keys{{"run.dir", "1"}, {"x.same", "1"}, {"x.other", "1"}}), run("old", {}),
      run("b", Keys{{"run.dir", "2"}, {"x.same", "1"}, {"x.other", "2"}, {"x.new", "3"}})};
  const auto found = differences(runs);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "x.new");
  EXPECT_EQ(found[0].values, (std::vector<std::optional<std::string>>{{}, {}, "3"}));
  EXPECT_EQ(found[1].key, "x.other");
  EXPECT_THAT(to_text(runs), HasSubstr("old: its job was not kept"));
  EXPECT_TRUE(to_json(runs)["job"][0]["values"][1].is_null());
  EXPECT_THAT(to_text({runs[0], runs[0]}), HasSubstr("no key of the jobs differs\n"));
  EXPECT_THAT(to_text({runs[0], runs[1]}), ::testing::Not(HasSubstr("no key"))) << "there is nothing to compare with";
}

TEST(Comparison, OfAFolderWithEmptyFilesTellsWhichOnes) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("compared_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"journal.jsonl", "metrics.jsonl", "job.toml", "result.json", "RUN"})
    std::ofstream(folder / name).flush();
  const auto empty = compared_run("empty", {.folder = folder}, 0);
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(empty.job) << "of which no key is known";
  EXPECT_THAT(to_text({empty, run("b", Keys{{"x.other", "2"}})}), HasSubstr("empty: its job was not kept: job.toml"));
}

TEST(Comparison, ShowsWhatIsNotKnownAsSuch) {
  auto one = run("a", {}), other = run("b\n", {});
  one.result.accuracy = 0.5;
  const std::string text = to_text({one, other});
  EXPECT_THAT(text, ::testing::ContainsRegex("accuracy +50.00% +-\n"));
  EXPECT_THAT(text, HasSubstr("b\\n")) << "names are not trusted";
  EXPECT_THAT(text, ::testing::Not(HasSubstr("HFU"))) << "nothing is computed again";
  other.result.hfu = 0.25;
  EXPECT_THAT(to_text({one, other}), ::testing::ContainsRegex("HFU +- +25.0%\n"));
}
}  // namespace
}  // namespace distdl::app
