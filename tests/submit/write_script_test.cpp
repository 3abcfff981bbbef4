// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/submit/batch_script.hpp>
#include <distdl/submit/write_script.hpp>
#include <distdl/version.hpp>

namespace distdl::submit {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// What of train.sbatch runs in a job is not repeated in the golden file: it has a test of its own.
std::string before_the_job_part(const std::string& script) {
  return script.substr(0, script.find("# The program: "));
}

TEST(Script, IsTheGoldenOne) {
  Options keys;
  keys.nodes = "6-8";
  keys.gpus_per_node = "4";
  keys.tasks_per_node = 4;
  keys.options = "--mail-type=END --comment='two words'";
  keys.setup = "module load cuda";
  ScriptRequest request{merge_options(keys, parse_sbatch_words({"--time=12:00:00", "-p", "gpu"}))};
  request.options.set("output", "my run/slurm-%j.log");
  request.arguments = {"job.toml", "--set", "train.name=it's"};
  request.setup = keys.setup;
  request.program = "/opt/distdl/bin/distdl";
  request.made_by = "distdl submit job.toml --time=12:00:00 -p gpu";
  request.chain = "c0ffee";
  request.run = "/runs/my run";
  std::string golden = read(DISTDL_SOURCE_DIR "/tests/submit/golden.sbatch");
  golden.replace(golden.find("VERSION"), std::string("VERSION").size(), DISTDL_VERSION);
  EXPECT_EQ(before_the_job_part(write_script(request)), golden);
}

TEST(Script, NamesTheFolderOfItsRun) {
  ScriptRequest request{merge_options({}, {}), {"job.toml"}};
  EXPECT_EQ(run_folder_in(write_script(request)), std::nullopt);
  request.run = "/runs/my run";
  EXPECT_EQ(run_folder_in(write_script(request)), "/runs/my run");
  request.run = "/runs/two\nlines";
  EXPECT_EQ(run_folder_in(write_script(request)), std::nullopt) << "no line of a script can hold it";
}

TEST(Script, DoesInAJobWhatTrainSbatchDoes) {
  const std::string train(train_sbatch()),
      script = write_script({merge_options({}, {}), {"job.toml"}, {}, "", "", "x"});
  EXPECT_EQ(train, read(DISTDL_SOURCE_DIR "/sbatch/train.sbatch"));
  const auto job = train.find("# distdl starts the workers with srun");
  ASSERT_NE(job, std::string::npos);
  EXPECT_TRUE(script.ends_with(train.substr(job)));
  EXPECT_THAT(script, HasSubstr("distdl=${DISTDL:-distdl}\n"));
  EXPECT_THAT(script, Not(HasSubstr("run --check"))) << "what it does outside of a job is left out";
  const auto ours = parse_batch_script(script, "ours"), theirs = parse_batch_script(train, "train.sbatch");
  EXPECT_EQ(ours.options.all(), theirs.options.all());
  EXPECT_EQ(ours.late_options.size(), 0u);
}

TEST(Script, OfAJobThatJoinsARunTrainsNothingItself) {
  ScriptRequest request{merge_options({}, {})};
  request.setup = "module load cuda";
  request.program = "/opt/distdl/bin/distdl";
  request.joins = "/data/my run";
  const auto script = write_script(request);
  EXPECT_THAT(script, HasSubstr("#SBATCH --no-kill\n"));
  EXPECT_THAT(script, HasSubstr("module load cuda\n"));
  EXPECT_THAT(script, HasSubstr("distdl=${DISTDL:-distdl}\n"));
  EXPECT_TRUE(script.ends_with("exec \"$distdl\" join '/data/my run'\n")) << script;
  EXPECT_THAT(script, Not(HasSubstr("distdl\" run")));
}

TEST(Script, LaterOptionsBeatEarlierOnes) {
  Options keys;
  keys.nodes = "4";
  keys.exclusive = false;
  keys.options = "--nodes=5 --no-requeue";
  auto options = merge_options(keys, {});
  EXPECT_EQ(options.value("nodes"), "5");
  EXPECT_EQ(options.value("time"), "01:00:00") << "of train.sbatch";
  EXPECT_FALSE(options.has("exclusive"));
  EXPECT_FALSE(options.has("requeue"));
  EXPECT_EQ(merge_options(keys, parse_sbatch_words({"-N6"})).value("nodes"), "6");
  keys.options = "nodes";
  EXPECT_THROW(merge_options(keys, {}), UsageError);
}

TEST(Script, HasNoOptionOverSeveralLines) {
  ScriptRequest request{merge_options({}, {}), {"job.toml"}, {}, "", "", "a\nb"};
  EXPECT_THAT(write_script(request), HasSubstr("#   a\\nb\n"));
  request.options.set("comment", "x\n#SBATCH --uid=0");
  EXPECT_THROW(write_script(request), UsageError);
}

TEST(Patterns, OfFilesKeepTheirPercentSigns) {
  EXPECT_EQ(escape_pattern("a%jb%"), "a%%jb%%");
}

}  // namespace
}  // namespace distdl::submit
