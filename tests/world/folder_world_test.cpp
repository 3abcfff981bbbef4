// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/world/folder_world.hpp>

namespace distdl::world {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FolderWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path(::testing::TempDir()) / "distdl-folder-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> meet(int rank, int size, const std::string& mine, int timeout_ms = 5000,
                                const std::string& launch = "a") const {
    return make_folder_world({folder_, launch, Rank(rank), size})->all_gather_strings(mine, Milliseconds(timeout_ms));
  }
  std::string failure(const std::function<void()>& action) const {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  }

  fs::path folder_;
};

TEST_F(FolderWorld, GivesEveryoneEverythingAndCleansUp) {
  const std::string binary("\0\n\xff", 3);
  std::vector<std::vector<std::string>> seen(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] { seen[r] = meet(r, 3, r == 1 ? binary : "blob" + std::to_string(r)); });
  for (auto& thread : threads) thread.join();
  for (const auto& all : seen) EXPECT_THAT(all, ElementsAre("blob0", binary, "blob2"));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(FolderWorld, NamesTheRanksThatDidNotCome) {
  EXPECT_THAT(failure([&] { meet(1, 4, "", 50); }), HasSubstr("ranks 0, 2 and 3 did not arrive within 0.1 s"));
}

TEST_F(FolderWorld, NeverReadsFilesOfAnEarlierLaunch) {
  EXPECT_THROW(meet(1, 2, "old", 20, "first"), SchedulerError);  // leaves its file behind
  EXPECT_THAT(failure([&] { meet(0, 2, "new", 50, "second"); }), HasSubstr("rank 1 did not arrive"));
  EXPECT_THAT(failure([&] { meet(1, 2, "new", 50, "first"); }), HasSubstr("launch id \"first\" was used before"));
}

TEST_F(FolderWorld, RefusesAnotherWorldSize) {
  fs::create_directories(folder_ / "a");
  std::ofstream(folder_ / "a" / "rank-1") << "distdl-rendezvous 1 5\n";
  const std::string text = failure([&] { meet(0, 2, ""); });
  EXPECT_THAT(text, HasSubstr("rank 1 wrote \"distdl-rendezvous 1 5\""));
  EXPECT_THAT(text, HasSubstr("\"distdl-rendezvous 1 2\" was expected"));
}

TEST_F(FolderWorld, NeitherWaitsForAFifoNorReadsAnySize) {
  fs::create_directories(folder_ / "a");
  ASSERT_EQ(::mkfifo((folder_ / "a" / "rank-1").c_str(), 0600), 0);
  EXPECT_THAT(failure([&] { meet(0, 2, ""); }), HasSubstr("rank-1\" is a FIFO"));
  fs::remove_all(folder_ / "a");
  fs::create_directories(folder_ / "a");
  std::ofstream(folder_ / "a" / "rank-1") << "distdl-rendezvous 1 2\n";
  fs::resize_file(folder_ / "a" / "rank-1", std::uintmax_t{1} << 40);  // a hole
  EXPECT_THAT(failure([&] { meet(0, 2, ""); }), HasSubstr("were expected"));
}

TEST_F(FolderWorld, IsPrivateInAFolderThatOthersMayWriteTo) {
  for (const mode_t mode : {02775, 0777}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    EXPECT_THAT(failure([&] { meet(1, 2, "secret", 20); }), HasSubstr("rank 0 did not arrive"));
    EXPECT_EQ(mode_of(folder_ / "a"), 0700u);
    EXPECT_EQ(mode_of(folder_ / "a" / "rank-1"), 0600u);
    fs::remove_all(folder_ / "a");
    std::thread other([&] { meet(1, 2, "one"); });
    EXPECT_THAT(meet(0, 2, "zero"), ElementsAre("zero", "one"));
    other.join();
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

TEST_F(FolderWorld, ClosesAFolderThatOthersMayEnter) {
  ASSERT_EQ(::mkdir((folder_ / "a").c_str(), 0777) + ::chmod((folder_ / "a").c_str(), 0777), 0);
  EXPECT_THAT(failure([&] { meet(1, 2, "", 20); }), HasSubstr("did not arrive"));
  EXPECT_EQ(mode_of(folder_ / "a"), 0700u);
}

TEST_F(FolderWorld, AnotherUserIsNoRank) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
  constexpr uid_t kNobody = 65534;
  fs::create_directories(folder_ / "a");
  std::ofstream(folder_ / "a" / "rank-1") << "distdl-rendezvous 1 2\nforged";
  ASSERT_EQ(::chown((folder_ / "a" / "rank-1").c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(failure([&] { meet(0, 2, ""); }), HasSubstr("rank-1\" belongs to user 65534"));
  fs::create_directories(folder_ / "b");
  ASSERT_EQ(::chown((folder_ / "b").c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(failure([&] { meet(0, 2, "", 50, "b"); }), HasSubstr("b\" belongs to user 65534"));
  EXPECT_TRUE(fs::is_empty(folder_ / "b"));
}

TEST_F(FolderWorld, FollowsNoLink) {
  const fs::path precious = folder_ / "precious", run = folder_ / "run";
  fs::create_directories(precious / "a");
  fs::create_directory(run);
  fs::create_directory_symlink(precious, run / "launches");
  const auto meet_in = [&](const fs::path& folder) {
    make_folder_world({folder, "a", Rank(0), 1})->all_gather_strings("", Milliseconds(50));
  };
  EXPECT_THAT(failure([&] { meet_in(run / "launches"); }),
              HasSubstr("launches\" is a link, but a folder was expected"));
  fs::remove(run / "launches");
  fs::create_directory(run / "launches");
  fs::create_directory_symlink(precious / "a", run / "launches" / "a");
  EXPECT_THAT(failure([&] { meet_in(run / "launches"); }), HasSubstr("a\" is a link, but a folder was expected"));
  fs::remove(run / "launches" / "a");
  fs::create_directory(run / "launches" / "a");
  std::ofstream(precious / "a" / "file") << "text";
  fs::create_directory_symlink(precious / "a", run / "launches" / "a" / "inner");
  meet_in(run / "launches");
  EXPECT_TRUE(fs::exists(precious / "a" / "file"));
  EXPECT_TRUE(fs::is_empty(run / "launches")) << "the link is removed, its target is not";
}

TEST_F(FolderWorld, SaysWhyTheFolderCannotBeUsed) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(make_folder_world({folder_ / "file", "a", Rank(0), 1})->all_gather_strings("", Milliseconds(50)),
               StorageError);
  EXPECT_THROW(make_folder_world({folder_, "a", Rank(2), 2}), ConfigError);
  EXPECT_THROW(make_folder_world({folder_, "../a", Rank(0), 2}), ConfigError);
  EXPECT_THROW(make_folder_world({folder_, "", Rank(0), 2}), ConfigError);
}

}  // namespace
}  // namespace distdl::world
