// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/app/runs/run_jobs.hpp>
#include <distdl/base/random.hpp>
#include <distdl/launch/folder_lock.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobOfRun : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(run_);
    fs::create_directories(other_);
    for (const auto& folder : {run_, other_}) std::ofstream(folder / "journal.jsonl") << "{}\n";
  }
  void TearDown() override { fs::remove_all(folder_); }
  static slurm::JobRecord job(const fs::path& output) {
    slurm::JobRecord record;
    record.id = "17";
    record.user_id = ::geteuid();
    record.output = output.string();
    return record;
  }
  std::string doubt(const slurm::JobRecord& record, const std::optional<std::string>& script = kScript) const {
    return doubt_about_job(run_, record, script);
  }
  static std::string script_of(const fs::path& run) {
    return "#!/bin/bash\n# Run folder: " + run.string() + "\ndistdl\n";
  }

  static constexpr const char* kScript = "#!/bin/bash\n\"$distdl\" run \"$@\"\n";
  fs::path folder_ = fs::path(::testing::TempDir()) / ("run_jobs_" + random_hex(8));
  fs::path run_ = folder_ / "run", other_ = folder_ / "other";
};

TEST_F(JobOfRun, IsNamedByItsScriptOrItsOutput) {
  EXPECT_THAT(doubt(job("/tmp/slurm-17.out"), script_of(run_)), IsEmpty());
  EXPECT_THAT(doubt(job(run_ / "slurm-17.log")), IsEmpty());
  EXPECT_THAT(doubt(job(run_ / "slurm-17.log"), script_of(other_)), HasSubstr("its script is of the run \""));
  EXPECT_THAT(doubt(job(other_ / "slurm-17.log")), HasSubstr("its output goes to the run \""));
}

TEST_F(JobOfRun, OfAScriptOfTheUsersOwnCountsWhereOnlyTheUserCanHaveNamedIt) {
  EXPECT_THAT(doubt(job("/tmp/slurm-17.out")), IsEmpty());
  EXPECT_THAT(doubt(job("/tmp/slurm-17.out"), "#!/bin/bash\nsleep 1000\n"), HasSubstr("does not run distdl"));
  fs::permissions(run_ / "journal.jsonl", fs::perms::group_write, fs::perm_options::add);
  EXPECT_THAT(doubt(job("/tmp/slurm-17.out")), HasSubstr("others may have written the journal"));
  EXPECT_THAT(doubt(job("/tmp/slurm-17.out"), script_of(run_)), IsEmpty()) << "its script tells";
}

TEST_F(JobOfRun, WithoutAScriptMustHoldTheRunFolder) {
  EXPECT_THAT(doubt(job(""), std::nullopt), HasSubstr("does not hold the run folder"));
  auto holder = launch::Holder::self();
  holder.job = "17";
  std::ofstream(run_ / "LOCK") << to_text(holder);
  EXPECT_THAT(doubt(job(""), std::nullopt), IsEmpty());
}

TEST_F(JobOfRun, IsOfTheUserOrOfTheOwnerOfTheFolder) {
  auto record = job(run_ / "slurm-17.log");
  record.user_id = ::geteuid() + 1;
  EXPECT_THAT(doubt(record), HasSubstr("it belongs to user "));
}
}  // namespace
}  // namespace distdl::app
