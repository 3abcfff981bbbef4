// SPDX-License-Identifier: Apache-2.0
// Small texts of Slurm: durations, times, --signal.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <distdl/slurm/duration.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/warning_signal.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

TEST(Duration, AsSbatchTakesItAndScontrolPrintsIt) {
  EXPECT_EQ(duration_in("1-02:03:04"), 26h + 3min + 4s);
  EXPECT_EQ(duration_in("02:03:04"), 2h + 3min + 4s);
  EXPECT_EQ(duration_in("03:04"), 3min + 4s);
  EXPECT_EQ(duration_in("5"), 5min);
  EXPECT_EQ(duration_in("1-02"), 26h);
  EXPECT_EQ(duration_in("1-02:03"), 26h + 3min);
  EXPECT_EQ(duration_in("30 sec"), 30s);
  EXPECT_EQ(duration_in("5 min"), 5min);
  for (const char* text : {"", "UNLIMITED", "Partition_Limit", "-1", "1-", "1:2:3:4", "1-2:3:4:5", "a:b", "5 h", ":",
                           "99999999999999999999", "99999999999", "36501-00:00:00"})
    EXPECT_EQ(duration_in(text), std::nullopt) << text;
}

TEST(TimeIn, SecondsOrLocalTime) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const auto time = std::chrono::system_clock::from_time_t(1772366400);
  for (const char* text : {"2026-03-01T12:00:00", "1772366400", "@1772366400"}) EXPECT_EQ(time_in(text), time) << text;
  for (const char* text : {"", "@", "0", "-5", "Unknown", "2026-03-01", "2026-03-01T12:00:00x", "9223372036854775807",
                           "99999999999999999999", "1969-12-31T23:59:59", "9999-12-31T23:59:59"})
    EXPECT_EQ(time_in(text), std::nullopt) << text;
}

TEST(WarningSignal, OfAnOption) {
  const auto batch = warning_from("B:USR1@60");
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->name, "USR1");
  EXPECT_EQ(batch->before, 60s);
  EXPECT_TRUE(batch->to_batch_shell);
  EXPECT_FALSE(warning_from("SIGTERM@300")->to_batch_shell);
  EXPECT_EQ(warning_from("SIGTERM@300")->name, "TERM");
  EXPECT_EQ(warning_from("10")->name, "USR1");
  EXPECT_EQ(warning_from("USR2")->before, 60s) << "sbatch's default";
  EXPECT_TRUE(warning_from("RB:USR1@5")->to_batch_shell);
  for (const char* text : {"", "0", "B:", "USR1@0", "USR1@x", "USR1@-5", "USR1@70000"})
    EXPECT_FALSE(warning_from(text)) << text;
}

TEST(WarningSignal, OfAScript) {
  EXPECT_EQ(warning_in("#!/bin/bash\n# text\n\n#SBATCH --nodes=2\n#SBATCH --signal=B:USR1@90 # why\ntrue\n")->before,
            90s);
  EXPECT_EQ(warning_in("#!/bin/sh\n#SBATCH --signal USR1@30\n#SBATCH --signal='USR1@20'\n")->before, 20s) << "the last";
  EXPECT_FALSE(warning_in("#!/bin/sh\ntrue\n#SBATCH --signal=USR1@30\n")) << "sbatch stops at the first command";
  EXPECT_FALSE(warning_in("#!/bin/sh\n##SBATCH --signal=USR1@30\n"));
  EXPECT_FALSE(warning_in(""));
}
}  // namespace
}  // namespace distdl::slurm
