// SPDX-License-Identifier: Apache-2.0
#include <functional>

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
  options.servers.tasks = servers;
  options.servers.placement = placement;
  return options;
}

std::string problem_of(const std::function<void()>& check) try {
  check();
  return "";
} catch (const ConfigError& error) {
  return error.what();
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

using Hosts = std::vector<std::string>;

TEST(Cluster, FewServersAreOnDifferentNodesFirst) {
  EXPECT_THAT(cluster_of(server_options(2), Hosts{"a", "b", "a", "b"}).servers, ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(cluster_of(server_options(2), Hosts{"a", "a", "b", "b"}).servers, ElementsAre(Rank(0), Rank(2)));
  EXPECT_THAT(cluster_of(server_options(4), Hosts{"a", "a", "a", "a", "b", "c", "c"}).servers,
              ElementsAre(Rank(0), Rank(2), Rank(4), Rank(5)));
  EXPECT_EQ(cluster_of(server_options(7), Hosts{"a", "a", "a", "a", "b", "c", "c"}).servers.size(), 7u);
}

TEST(Cluster, ServersMayHaveTheLastNodesForThemselves) {
  auto options = server_options(0, server::Placement::own_nodes);
  const Hosts four{"a", "b", "c", "d", "a", "b", "c", "d"};
  EXPECT_THAT(cluster_of(options, four).servers, ElementsAre(Rank(3), Rank(7)));
  EXPECT_THAT(cluster_of(options, four).workers, ElementsAre(Rank(0), Rank(1), Rank(2), Rank(4), Rank(5), Rank(6)));
  options.servers.tasks = 3;
  EXPECT_THAT(cluster_of(options, four).servers, ElementsAre(Rank(2), Rank(3), Rank(6), Rank(7)));
  EXPECT_EQ(shortage_of(options, cluster_of(options, four)), "");
  options.servers.tasks = 8;
  EXPECT_THAT(cluster_of(options, four).workers, ElementsAre(Rank(0), Rank(4))) << "the first node is for workers";
  EXPECT_EQ(shortage_of(options, cluster_of(options, four)), "6 of 8 tasks of \"ps\"");
  options.servers.tasks = 1;
  const auto cluster = cluster_of(options, Hosts{"a", "a", "a"});
  EXPECT_THAT(cluster.servers, ElementsAre(Rank(2)));
  EXPECT_EQ(shortage_of(options, cluster), "no nodes for servers alone");
  Hosts nodes(200, "b");
  nodes.front() = "a";
  EXPECT_EQ(cluster_of(options, nodes).servers.size(), 128u) << "a message has no place for more";
  EXPECT_EQ(cluster_of(options, nodes).workers.size(), 72u);
}

TEST(Cluster, RanksWithoutAGpuMayServeThoseWithOne) {
  auto options = server_options(0, server::Placement::by_device);
  const Hosts hosts{"a", "b", "b", "c", "d"};
  const std::vector<bool> on_gpu{false, true, true, false, true};
  const auto cluster = cluster_of(options, hosts, on_gpu);
  EXPECT_EQ(text_of(cluster), "3 workers on ranks 1 2 4 with a GPU, 2 servers on ranks 0 3 without one");
  EXPECT_EQ(shortage_of(options, cluster), "");
  options.servers.tasks = 3;  // more than there are without a GPU
  EXPECT_EQ(text_of(cluster_of(options, hosts, on_gpu)), "2 workers on ranks 1 2, 3 servers on ranks 0 3 4");
  options.servers.tasks = 1;
  EXPECT_EQ(text_of(cluster_of(options, hosts, on_gpu)), "4 workers on ranks 0 1 2 4, 1 server on rank 3");
  EXPECT_THAT(shortage_of(options, cluster_of(options, hosts, on_gpu)), HasSubstr("no ranks with a GPU"));
  options.servers.tasks = 0;
  for (const bool alike : {false, true})
    EXPECT_EQ(text_of(cluster_of(options, hosts, std::vector<bool>(5, alike))),
              "4 workers on ranks 0-3, 1 server on rank 4");
  options.servers.placement = server::Placement::own;
  EXPECT_THAT(cluster_of(options, hosts, on_gpu).servers, ElementsAre(Rank(4))) << "in no other placement";
}

TEST(Cluster, WorkersAreAsManyAsTheJobSays) {
  auto options = server_options(4);
  options.servers.workers = 2;
  EXPECT_EQ(text_of(cluster_of(options, 4)), "2 workers on ranks 0 1, 4 servers on ranks 0-3");
  options = server_options(0, server::Placement::own);
  options.servers.workers = 5;
  EXPECT_EQ(text_of(cluster_of(options, 7)), "5 workers on ranks 0-4, 2 servers on ranks 5 6");
  const auto fewer = cluster_of(options, 4);
  EXPECT_EQ(text_of(fewer), "3 workers on ranks 0-2, 1 server on rank 3") << "after the loss of a node";
  EXPECT_EQ(shortage_of(options, fewer), "3 of 5 tasks of \"worker\"");
}

TEST(Cluster, ARankWithoutARoleIsRefused) {
  const auto error_of = [](const Options& asked, std::size_t ranks) {
    return problem_of([&] { check_roles(asked, ranks); });
  };
  auto options = server_options(2);
  options.servers.workers = 6;
  EXPECT_EQ(error_of(options, 6), "");
  EXPECT_THAT(error_of(options, 8), HasSubstr("start 6, use \"own\", which are roles for 8, or set one"));
  options.servers.placement = server::Placement::own;
  EXPECT_EQ(error_of(options, 8), "");
  EXPECT_THAT(error_of(options, 9), HasSubstr("there are 9 ranks"));
  options.servers.workers = 0;
  EXPECT_EQ(error_of(options, 99), "");
}

TEST(Cluster, NodesForServersAloneAreCounted) {
  const auto options = server_options(3, server::Placement::own_nodes);
  EXPECT_NO_THROW(check_nodes_of_servers(options, 8, 4));
  EXPECT_NO_THROW(check_nodes_of_servers(options, 4, 4));
  EXPECT_THROW(check_nodes_of_servers(options, 4, 2), ConfigError);
  EXPECT_THROW(check_nodes_of_servers(server_options(0, server::Placement::own_nodes), 4, 1), ConfigError);
  EXPECT_NO_THROW(check_nodes_of_servers(server_options(3), 1, 1)) << "in any other placement";
}

TEST(Cluster, KeysOutOfRangeAreNamed) {
  const auto error_of = [](const std::function<void(Options&)>& change) {
    Options options = server_options(0);
    change(options);
    return problem_of([&] { check_servers(options); });
  };
  EXPECT_EQ(error_of([](Options&) {}), "");
  EXPECT_THAT(error_of([](Options& o) { o.servers.tasks = -1; }), HasSubstr("cluster.ps.tasks is -1"));
  EXPECT_THAT(error_of([](Options& o) { o.servers.tasks = 129; }), HasSubstr("between 0 and 128"));
  EXPECT_THAT(error_of([](Options& o) { o.servers.workers = -1; }), HasSubstr("cluster.worker.tasks is -1"));
  EXPECT_THAT(error_of([](Options& o) { o.servers.workers = std::numeric_limits<std::int64_t>::max(); }),
              HasSubstr("cluster.worker.tasks is 9223372036854775807"));
  EXPECT_THAT(error_of([](Options& o) { o.servers.steps = 0; }), HasSubstr("parallel.server_steps is 0"));
  EXPECT_THAT(error_of([](Options& o) { o.servers.staleness = -1; }), HasSubstr("parallel.staleness is -1"));
  EXPECT_THAT(error_of([](Options& o) { o.servers.delay_compensation = 1; }), HasSubstr("no gradient is late"));
  EXPECT_EQ(error_of([](Options& o) {
              o.servers.delay_compensation = 1;
              o.servers.mode = server::Mode::asynchronous;
            }),
            "");
}
}  // namespace
}  // namespace distdl::parallel
