// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <distdl/agent/ranks/oom_kills.hpp>
#include <distdl/base/random.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;

class OomKillsTest : public testing::Test {
 protected:
  ~OomKillsTest() override { fs::remove_all(root_); }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  OomKills count() const { return count_oom_kills(root_); }

  fs::path root_ = fs::path(testing::TempDir()) / ("oom-" + random_hex(8));
};

TEST_F(OomKillsTest, OfACgroupOfVersion2) {
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("proc/vmstat", "nr_free_pages 12\noom_kill 40\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n");
  const OomKills before = count();
  EXPECT_EQ(before.of_cgroup, 2);
  EXPECT_EQ(before.of_machine, 40);
  EXPECT_EQ(place_of_oom_kill(before, count()), nullptr);
  write("proc/vmstat", "oom_kill 41\n");
  EXPECT_EQ(place_of_oom_kill(before, count()), nullptr) << "of another job";
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.events", "oom_kill 3\n");
  EXPECT_STREQ(place_of_oom_kill(before, count()), "in its cgroup");
}

TEST_F(OomKillsTest, OfACgroupOfVersion1) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/slurm/job_7\n0::/\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_EQ(count().of_cgroup, 1);
  EXPECT_FALSE(count().of_machine);
}

TEST_F(OomKillsTest, WithoutCgroupTheMachineTells) {
  write("proc/vmstat", "oom_kill 1\n");
  const OomKills before = count();
  write("proc/vmstat", "oom_kill 2\n");
  EXPECT_STREQ(place_of_oom_kill(before, count()), "on its node");
}

TEST_F(OomKillsTest, NothingIsKnownWithoutFiles) {
  EXPECT_FALSE(count().of_cgroup);
  EXPECT_FALSE(count().of_machine);
  EXPECT_EQ(place_of_oom_kill(count(), count()), nullptr);
}

TEST(OomKills, OfThisMachineCanBeRead) {
  const OomKills kills = count_oom_kills();
  EXPECT_TRUE(kills.of_machine || kills.of_cgroup) << "Linux since 4.13 has it in /proc/vmstat";
}

}  // namespace
}  // namespace distdl::agent
