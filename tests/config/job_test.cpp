// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/config/job.hpp>

namespace distdl::config {
namespace {
using ::testing::HasSubstr;

std::filesystem::path file_with(const std::string& text) {
  auto file = std::filesystem::path(::testing::TempDir()) / "job_test.toml";
  std::ofstream(file) << text;
  return file;
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    load(file_with(text), overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Job, ReadsKeysAndKeepsDefaults) {
  auto job = load(file_with("[train]\nepochs = 3\n[model]\nhidden = [32, 16]\n[optim]\nlearning_rate = 1\n"), {});
  EXPECT_EQ(job.recipe.train.epochs, 3);
  EXPECT_EQ(job.recipe.model.hidden, (std::vector<std::int64_t>{32, 16}));
  EXPECT_EQ(job.recipe.optim.learning_rate, 1.0);
  EXPECT_EQ(job.recipe.optim.momentum, 0.9);
}

TEST(Job, OverridesWinOverTheFile) {
  auto job = load(file_with("[train]\nepochs = 3\n"), {"train.epochs=5", "run.dir=/some/where", "data.train=12",
                                                       "optim.nesterov=true", "model.hidden=[7]"});
  EXPECT_EQ(job.recipe.train.epochs, 5);
  EXPECT_EQ(job.run_dir, "/some/where");
  EXPECT_EQ(job.recipe.data.train, "12");
  EXPECT_TRUE(job.recipe.optim.nesterov);
  EXPECT_EQ(job.recipe.model.hidden, std::vector<std::int64_t>{7});
}

TEST(Job, AnIntervalIsANumberOrAuto) {
  using checkpoint::Interval;
  auto every = [](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return load(file_with(text), overrides).recipe.checkpoint.every;
  };
  EXPECT_EQ(every("[checkpoint]\nevery = 7\n"), Interval(7));
  EXPECT_EQ(every("[checkpoint]\nevery = \"auto\"\n"), Interval::by_cost());
  EXPECT_EQ(every("", {"checkpoint.every=auto"}), Interval::by_cost());
  EXPECT_EQ(every("", {"checkpoint.every=\"auto\""}), Interval::by_cost());
  EXPECT_EQ(every("", {"checkpoint.every=12"}), Interval(12));
  EXPECT_THAT(error_of("[checkpoint]\nevery = \"often\"\n"), HasSubstr("must be a whole number or \"auto\""));
  EXPECT_THAT(error_of("", {"checkpoint.every=1.5"}), HasSubstr("must be a whole number or \"auto\""));
  auto job = load(file_with(""), {"checkpoint.every=auto"});
  EXPECT_EQ(load(file_with(to_toml(job)), {}).recipe.checkpoint.every, Interval::by_cost());
}

TEST(Job, NamesTheLineAndTheNearestKey) {
  auto message = error_of("[train]\n\nepoch = 3\n");
  EXPECT_THAT(message, HasSubstr("job_test.toml:3:"));
  EXPECT_THAT(message, HasSubstr("unknown key \"train.epoch\"; did you mean \"train.epochs\"?"));
  EXPECT_THAT(error_of("[training]\nepochs = 3\n"), HasSubstr("did you mean \"train.epochs\"?"));
  EXPECT_THAT(error_of("", {"train.sed=1"}), HasSubstr("did you mean \"train.seed\"?"));
}

TEST(Job, NamesTheExpectedType) {
  EXPECT_THAT(error_of("[train]\nepochs = \"three\"\n"), HasSubstr("key \"train.epochs\" must be a whole number"));
  EXPECT_THAT(error_of("[train]\nepochs = 1.5\n"), HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of("[model]\nname = 3\n"), HasSubstr("must be a text in quotes"));
  EXPECT_THAT(error_of("[model]\nhidden = [1, \"b\"]\n"), HasSubstr("must be a list of whole numbers"));
  EXPECT_THAT(error_of("", {"train.epochs=many"}), HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of("", {"train.epochs"}), HasSubstr("expected KEY=VALUE"));
}

TEST(Job, AnEmptyTableIsAKeyUnlessKeysLieUnderIt) {
  EXPECT_EQ(error_of("[train]\n[model]\n"), "no error");
  EXPECT_THAT(error_of("[train.epochs]\n"), HasSubstr("key \"train.epochs\" must be a whole number"));
  EXPECT_THAT(error_of("train = {epochs = {}}\n"), HasSubstr("key \"train.epochs\" must be a whole number"));
  EXPECT_THAT(error_of("[trian]\n"), HasSubstr("unknown key \"trian\""));
}

TEST(Job, ReportsBrokenTomlAndMissingFiles) {
  EXPECT_THAT(error_of("[train\n"), HasSubstr("job_test.toml:1:"));
  EXPECT_THROW(load("/nowhere/job.toml", {}), ConfigError);
}

TEST(Job, DefaultsAreAJobFileThatChangesNothing) {
  auto job = load(file_with(defaults_as_toml()), {});
  EXPECT_EQ(to_toml(job), to_toml(Job{}));
}

TEST(Job, ExamplesLoad) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(load(entry.path(), {})) << entry.path();
    ++examples;
  }
  EXPECT_GE(examples, 2);
}

TEST(Job, ReferencePageIsUpToDate) {
  std::ifstream in(SOURCE_DIR "/docs/configuration.md");
  std::string page((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(page, HasSubstr(reference_as_markdown())) << "run: build/bin/distdl config --reference";
}
}  // namespace
}  // namespace distdl::config
