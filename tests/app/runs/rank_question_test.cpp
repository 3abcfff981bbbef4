// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <tests/pace.hpp>
#include <unistd.h>

#include <distdl/agent/inspector.hpp>
#include <distdl/app/runs/rank_question.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
namespace fs = std::filesystem;

class RankQuestion : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  /// Answers the next question as the agents of these nodes would: n1 sees three nodes, of which n3 is a spare.
  std::jthread answer(std::vector<std::uint32_t> nodes) {
    return std::jthread([this, nodes = std::move(nodes)] {
      const auto all = agent::questions_folder(folder_);
      for (std::error_code error; !fs::exists(all, error) || fs::is_empty(all, error);)
        std::this_thread::sleep_for(1ms);
      const auto question = fs::directory_iterator(all)->path();
      for (const std::uint32_t node : nodes) {
        agent::NodeReport report{fmt::format("n{}", node + 1), node, "", {}, {}};
        report.ranks.push_back({Rank(static_cast<int>(node)), 100, "S", {}});
        report.nodes = {{"n1", true, 0}, {"n2", true, 2.5 + node}, {"n3", false, 60}};
        std::ofstream(question / ".unfinished") << agent::to_text(report);
        fs::rename(question / ".unfinished", question / fmt::format("{}.json", report.host));
      }
    });
  }
  fs::path folder_ = fs::path(::testing::TempDir()) / ("rank_question_" + std::to_string(::getpid()));
};

TEST_F(RankQuestion, EndsWhenAllNodesWithRanksHaveAnswered) {
  const auto answering = answer({1, 0});
  const auto answers = ask_about_ranks(folder_, 60s);
  EXPECT_LT(answers.waited_seconds, 30);
  ASSERT_EQ(answers.nodes.size(), 2u);
  EXPECT_EQ(answers.nodes[0].host, "n1");
  EXPECT_TRUE(answers.silent.empty());
  ASSERT_EQ(answers.ranks().size(), 2u);
  EXPECT_EQ(answers.host_of(Rank(1)), "n2");
  EXPECT_EQ(answers.host_of(Rank(7)), "");
  EXPECT_FALSE(fs::exists(agent::questions_folder(folder_))) << "the question is left behind";
}

TEST_F(RankQuestion, NamesTheNodeThatDoesNotAnswer) {
  const auto answering = answer({0});
  const auto answers = ask_about_ranks(folder_, paced(1000ms));
  ASSERT_EQ(answers.nodes.size(), 1u);
  ASSERT_EQ(answers.silent.size(), 1u);
  EXPECT_EQ(answers.silent[0].host, "n2");
  EXPECT_EQ(answers.silent[0].heard_by, "n1");
  EXPECT_EQ(answers.silent[0].silent_seconds, 2.5);
}

TEST_F(RankQuestion, RemovesOldQuestionsAndNothingElse) {
  const auto age = fs::file_time_type::clock::now() - 1h;
  const auto all = agent::questions_folder(folder_);
  for (const char* name : {"0123456789ab", "cafe00000000", "notes"}) {
    fs::create_directories(all / name);
    std::ofstream(all / name / "n1-7.json") << "{}";
  }
  std::ofstream(all / "cafe00000000" / "thesis.tex") << "x";
  for (const auto& entry : fs::directory_iterator(all)) fs::last_write_time(entry.path(), age);
  ask_about_ranks(folder_, 10ms);
  EXPECT_FALSE(fs::exists(all / "0123456789ab"));
  EXPECT_TRUE(fs::exists(all / "notes" / "n1-7.json"));
  EXPECT_TRUE(fs::exists(all / "cafe00000000" / "n1-7.json")) << "the folder has a file of somebody else";
}

TEST_F(RankQuestion, FollowsNoLink) {
  const auto precious = folder_ / "precious";
  fs::create_directories(precious / "0123456789ab");
  fs::last_write_time(precious / "0123456789ab", fs::file_time_type::clock::now() - 1h);
  fs::create_directory_symlink(precious, agent::questions_folder(folder_));
  EXPECT_THROW(ask_about_ranks(folder_, 10ms), StorageError);
  EXPECT_TRUE(fs::exists(precious / "0123456789ab"));
}

TEST_F(RankQuestion, EndsWithoutAnyAnswer) {
  const auto answers = ask_about_ranks(folder_, 100ms);
  EXPECT_TRUE(answers.nodes.empty());
  EXPECT_TRUE(answers.silent.empty());
  EXPECT_GE(answers.waited_seconds, 0.1);
}
}  // namespace
}  // namespace distdl::app
