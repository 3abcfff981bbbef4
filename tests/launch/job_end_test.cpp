// SPDX-License-Identifier: Apache-2.0
// When a job ends, where Slurm is not, and where it changes. PBS, LSF and Flux are texts here.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <distdl/base/process_age.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/launch/other_schedulers.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const auto kNow = std::chrono::system_clock::from_time_t(1772366400);  // 2026-03-01T12:00:00

/// A machine with these variables, on which any command prints one text.
struct Machine {
  std::map<std::string, std::string> variables = {};
  CommandResult answer = {127, "", "no such command"};
  std::vector<std::vector<std::string>> asked = {};

  std::optional<OtherEnd> end(std::optional<std::chrono::system_clock::time_point> session = kNow - 10min) {
    return end_under_other_scheduler({[this](const std::string& name) -> std::optional<std::string> {
                                        const auto found = variables.find(name);
                                        if (found == variables.end()) return std::nullopt;
                                        return found->second;
                                      },
                                      [this](const std::vector<std::string>& command) {
                                        asked.push_back(command);
                                        return answer;
                                      },
                                      kNow, session});
  }
};

class OtherSchedulers : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(OtherSchedulers, WhereNoneIsNothingIsAsked) {
  Machine machine;
  EXPECT_FALSE(machine.end());
  EXPECT_THAT(machine.asked, IsEmpty());
}

TEST_F(OtherSchedulers, PbsByItsVariable) {
  Machine machine{{{"PBS_JOBID", "17.server"}, {"PBS_WALLTIME", "3600"}}};
  const auto end = machine.end();
  ASSERT_TRUE(end);
  EXPECT_EQ(end->end, kNow + 50min) << "counted from the begin of the session";
  EXPECT_EQ(end->source, "PBS_WALLTIME");
  EXPECT_THAT(machine.asked, IsEmpty());
}

TEST_F(OtherSchedulers, PbsByQstat) {
  Machine machine{{{"PBS_JOBID", "17.server"}},
                  {0,
                   "Job Id: 17.server\n    Job_Name = x = y\n    Resource_List.walltime = 01:30:00\n    "
                   "stime = Sun Mar 01 11:00:00 2026\n    resources_used.walltime = 00:59:00\n",
                   ""}};
  EXPECT_EQ(machine.end()->end, kNow + 30min);
  EXPECT_THAT(machine.asked, ElementsAre(ElementsAre("qstat", "-f", "17.server")));
  machine.answer.output = "    Resource_List.walltime = 7200\n    start_time = Sun Mar  1 11:00:00 2026\n";
  EXPECT_EQ(machine.end()->end, kNow + 1h);
  machine.answer.output = "    Walltime.Remaining = 300\n";
  EXPECT_EQ(machine.end()->end, kNow + 300s);
  for (const char* text : {"", "Resource_List.walltime = 01:00:00",
                           "    stime = soon\n    Resource_List.walltime = 1\n", "    Walltime.Remaining = -5\n"}) {
    machine.answer.output = text;
    EXPECT_FALSE(machine.end()) << text;
  }
  machine.answer = {1, "", "qstat: Unknown Job Id"};
  EXPECT_FALSE(machine.end());
  machine.variables["PBS_WALLTIME"] = "3600";
  EXPECT_FALSE(machine.end(std::nullopt)) << "from when on is not known";
}

TEST_F(OtherSchedulers, Lsf) {
  Machine machine{{{"LSB_JOBID", "42"}}, {0, "0:12 L\n", ""}};
  EXPECT_EQ(machine.end()->end, kNow + 11min);
  EXPECT_THAT(machine.asked, ElementsAre(ElementsAre("bjobs", "-noheader", "-o", "time_left", "42")));
  EXPECT_EQ(time_left_in_bjobs("00:12:05 L"), 12min + 5s);
  EXPECT_EQ(time_left_in_bjobs("100:00 L"), 100h - 1min);
  EXPECT_EQ(time_left_in_bjobs("0:00 L"), 0s);
  for (const char* text : {"", "-", "0:12 E", "0:12 X", "L", "12 L", "a:b L", "0:12"})
    EXPECT_FALSE(time_left_in_bjobs(text)) << text;
}

TEST_F(OtherSchedulers, Flux) {
  Machine machine{{{"FLUX_JOB_ID", "f2ABC"}}, {0, "1800\n", ""}};
  EXPECT_EQ(machine.end()->end, kNow + 30min);
  EXPECT_THAT(machine.asked, ElementsAre(ElementsAre("flux", "job", "timeleft")));
  EXPECT_EQ(time_left_in_flux("0\n"), 0s);
  for (const char* text : {"", "4294967295", "99999999999999999999", "-1", "inf", "1h"})
    EXPECT_FALSE(time_left_in_flux(text)) << text;
}

TEST(ProcessAge, OfThisOneIsShort) {
  const auto age = age_of_process(::getpid());
  ASSERT_TRUE(age);
  EXPECT_LT(*age, 1h);
  EXPECT_FALSE(age_of_process(1 << 30));
}

class EndFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("end_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    path_ = ::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("DISTDL_PLUGIN_PATH", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("DISTDL_PLUGIN_PATH");
    std::filesystem::remove_all(folder_);
  }
  void job_is(const std::string& fields) {
    const auto file = folder_ / "scontrol";
    std::ofstream(file) << "#!/bin/sh\necho x >> " << (folder_ / "asked").string() << "\necho JobId=17 " << fields
                        << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    slurm::scheduler().forget();
  }
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(EndFile, IsReadByTheSameStartOfTheSameJobAlone) {
  const slurm::Allocation job{.job = "17"}, requeued{.job = "17", .restart = 1}, task{.job = "17", .name = "17_3"};
  EXPECT_FALSE(read_end(folder_, job));
  write_end(folder_, task, kNow);
  EXPECT_EQ(read_end(folder_, task), kNow);
  EXPECT_FALSE(read_end(folder_, job));
  write_end(folder_, job, kNow);
  EXPECT_FALSE(read_end(folder_, requeued)) << "its end is another";
  for (const char* text :
       {"", "17", "17 0", "17 0 soon", "17 0 -5", "17 0 99999999999999999999", "17 0 999999999999", "17 1772366400"}) {
    std::ofstream(end_file(folder_)) << text;
    EXPECT_FALSE(read_end(folder_, job)) << text;
  }
  std::ofstream(end_file(folder_)) << std::string(1000, ' ') << "17 0 1772366400";
  EXPECT_FALSE(read_end(folder_, job));
}

TEST_F(EndFile, IsWrittenWhenSlurmMovesTheEnd) {
  const slurm::Allocation job{.job = "17"};
  EndWatch watch(job, folder_, kNow, 0ms);
  job_is("JobState=RUNNING TimeLimit=01:00:00 EndTime=1772366400");
  watch.poll();
  EXPECT_FALSE(read_end(folder_, job)) << "as the ranks know it";
  job_is("JobState=RUNNING TimeLimit=02:00:00 EndTime=1772370000");
  watch.poll();
  EXPECT_EQ(read_end(folder_, job), kNow + 1h);
  job_is("JobState=COMPLETING TimeLimit=02:00:00 EndTime=1772360000");
  watch.poll();
  EXPECT_EQ(read_end(folder_, job), kNow + 1h);
  std::filesystem::remove(folder_ / "asked");
  EndWatch patient(job, folder_, kNow);
  patient.poll();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "asked")) << "before a period is over";
}
}  // namespace
}  // namespace distdl::launch
