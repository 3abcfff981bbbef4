// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>

#include <distdl/program/program_variables.hpp>

namespace distdl::program {
namespace {
using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

Placement place() {
  return {.rank = 5,
          .size = 6,
          .local_rank = 1,
          .local_size = 2,
          .node = 2,
          .nodes = 3,
          .master_address = "10.0.0.1",
          .master_port = 1234,
          .run_id = "abc",
          .start = 3,
          .run_folder = "/run",
          .error_file = "/e",
          .contract = "/s"};
}

TEST(ProgramVariables, AreThoseOfTorchrun) {
  const auto all = program_variables(place(), 4);
  for (const auto& [name, value] : {std::pair("RANK", "5"),
                                    {"WORLD_SIZE", "6"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"GROUP_RANK", "2"},
                                    {"GROUP_WORLD_SIZE", "3"},
                                    {"NODE_RANK", "2"},
                                    {"MASTER_ADDR", "10.0.0.1"},
                                    {"MASTER_PORT", "1234"},
                                    {"TORCHELASTIC_RUN_ID", "abc"},
                                    {"TORCHELASTIC_RESTART_COUNT", "2"},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                    {"DISTDL_CONTRACT", "/s"}})
    EXPECT_THAT(all, Contains(Pair(name, value)));
  EXPECT_THAT(all, Not(Contains(Key("SLURM_PROCID"))));
}

TEST(ProgramVariables, OfDistdlsLibrariesAreWholeOrLeftToPmix) {
  Placement one = place();
  EXPECT_THAT(program_variables(one, 4), Not(Contains(Key("DISTDL_RANK"))));
  one.rendezvous = "/run/launches";
  for (const char* name : {"DISTDL_RANK", "DISTDL_WORLD_SIZE", "DISTDL_RENDEZVOUS", "DISTDL_LAUNCH_ID"})
    EXPECT_THAT(program_variables(one, 4), Contains(Key(name)));
}

TEST(ProgramVariables, OfSlurmAreTrueForEachRank) {
  for (const auto& [name, value] :
       {std::pair("SLURM_JOB_ID", "17"), {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_GTIDS", "2"}})
    ::setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const auto all = program_variables(place(), 4);
  for (const char* name : {"SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_GTIDS"})
    ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_THAT(all, Contains(Pair("SLURM_JOB_ID", "17")));
  EXPECT_THAT(all, Contains(Pair("SLURM_PROCID", "5")));
  EXPECT_THAT(all, Contains(Pair("SLURM_NTASKS", "6")));
  EXPECT_THAT(all, Contains(Pair("SLURM_LOCALID", "1")));
  EXPECT_THAT(all, Contains(Pair("SLURM_NODEID", "2")));
  EXPECT_THAT(all, Contains(Pair("SLURM_NTASKS_PER_NODE", "2")));
  EXPECT_THAT(all, Not(Contains(Key("SLURM_GTIDS"))));
}

TEST(ProgramVariables, TheProgramHasNothingOfItsRanksProcess) {
  for (const char* name : {"DISTDL_BEATS", "DISTDL_ACTIVITY", "PMIX_RANK", "PMI_SIZE", "KEPT"})
    ::setenv(name, "1", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const auto own = program_environment({{"RANK", "5"}}, false);
  EXPECT_THAT(own, Contains("RANK=5"));
  EXPECT_THAT(own, Contains("KEPT=1"));
  for (const char* entry : {"DISTDL_BEATS=1", "DISTDL_ACTIVITY=1", "PMIX_RANK=1", "PMI_SIZE=1"})
    EXPECT_THAT(own, Not(Contains(entry)));
  EXPECT_THAT(program_environment({}, true), Contains("PMIX_RANK=1")) << "an MPI program";
}
}  // namespace
}  // namespace distdl::program
