// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <distdl/program/container.hpp>

namespace distdl::program {
namespace {
using ::testing::ElementsAre;
using Words = std::vector<std::string>;

TEST(Container, PodmanGetsWhatTheRankNeedsBehindRun) {
  EXPECT_THAT(words_of_container({"/usr/bin/podman", "--log-level=warn", "run", "--rm", "--pid=private", "image"},
                                 {"RANK", "PMIX_*"}, {"/shared/run"}),
              ElementsAre("/usr/bin/podman", "--log-level=warn", "run", "--network=host", "--ipc=host", "--env=RANK",
                          "--env=PMIX_*", "--volume=/shared/run:/shared/run", "--rm", "--pid=private", "image"));
}

TEST(Container, OtherEnginesStayAsTheyAre) {
  const Words apptainer{"apptainer", "run", "image.sif"}, none, charliecloud{"ch-run", "image", "--"};
  for (const auto& words : {apptainer, none, charliecloud})
    EXPECT_EQ(words_of_container(words, {"RANK"}, {"/run"}), words);
}
}  // namespace
}  // namespace distdl::program
