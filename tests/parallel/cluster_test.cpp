// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/cluster.hpp>

namespace distdl::parallel {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Options server_options(std::int64_t servers, server::Placement placement = server::Placement::colocated) {
  Options options;
  options.strategy = Strategy::parameter_server;
  options.servers = servers;
  options.server_placement = placement;
  return options;
}

TEST(Cluster, EachRankHasBothRolesUnlessAskedOtherwise) {
  const auto cluster = cluster_of(server_options(0), 3);
  EXPECT_THAT(cluster.servers, ElementsAre(Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(cluster.workers, ElementsAre(Rank(0), Rank(1), Rank(2)));
}

TEST(Cluster, FewerServersAreSpreadOverTheRanks) {
  const auto cluster = cluster_of(server_options(2), 4);
  EXPECT_THAT(cluster.servers, ElementsAre(Rank(0), Rank(2)));
  EXPECT_EQ(cluster.server_of(Rank(2)), 1);
  EXPECT_EQ(cluster.server_of(Rank(1)), -1);
  EXPECT_EQ(cluster_of(server_options(9), 2).servers.size(), 2u) << "there are no more ranks";
}

TEST(Cluster, ServersOnTheirOwnHaveTheLastRanks) {
  const auto cluster = cluster_of(server_options(0, server::Placement::own), 8);
  EXPECT_THAT(cluster.servers, ElementsAre(Rank(6), Rank(7)));
  EXPECT_EQ(cluster.workers.size(), 6u);
  EXPECT_FALSE(cluster.has_worker(Rank(6)));
  EXPECT_EQ(text_of(cluster), "6 workers on ranks 0-5, 2 servers on ranks 6 7");
  EXPECT_EQ(text_of(cluster_of(server_options(3, server::Placement::own), 2)),
            "1 worker on rank 0, 1 server on rank 1");
  EXPECT_EQ(text_of(cluster_of(server_options(1, server::Placement::own), 1)),
            "1 worker on rank 0, 1 server on rank 0");
}

TEST(Cluster, KeysOutOfRangeAreNamed) {
  const auto error_of = [](const std::function<void(Options&)>& change) {
    Options options = server_options(0);
    change(options);
    try {
      check_servers(options);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of([](Options&) {}), "");
  EXPECT_THAT(error_of([](Options& o) { o.servers = -1; }), HasSubstr("parallel.servers is -1"));
  EXPECT_THAT(error_of([](Options& o) { o.servers = 129; }), HasSubstr("between 0 and 128"));
  EXPECT_THAT(error_of([](Options& o) { o.server_steps = 0; }), HasSubstr("parallel.server_steps is 0"));
  EXPECT_THAT(error_of([](Options& o) { o.staleness = -1; }), HasSubstr("parallel.staleness is -1"));
  EXPECT_THAT(error_of([](Options& o) { o.delay_compensation = 1; }), HasSubstr("no gradient is late"));
  EXPECT_EQ(error_of([](Options& o) {
              o.delay_compensation = 1;
              o.server_mode = server::Mode::asynchronous;
            }),
            "");
}
}  // namespace
}  // namespace distdl::parallel
