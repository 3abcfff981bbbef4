// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <distdl/agent/rank_reports.hpp>

namespace distdl::agent {
namespace {
using Json = nlohmann::json;

Json json_of(const WaitReport& wait) {
  Json json{{"operation", wait.operation}, {"bytes", wait.bytes}, {"seconds", wait.seconds}};
  if (wait.rank) json["rank"] = wait.rank->value;
  return json;
}

Json json_of(const ThreadReport& thread) {
  Json json{{"name", thread.name},   {"phase", thread.phase},   {"seconds", thread.seconds},
            {"state", thread.state}, {"kernel", thread.kernel}, {"stack", thread.stack}};
  if (thread.step) json["step"] = *thread.step;
  if (thread.wait) json["wait"] = json_of(*thread.wait);
  return json;
}

Json json_of(const RankReport& rank) {
  Json threads = Json::array();
  for (const auto& thread : rank.threads) threads.push_back(json_of(thread));
  return {{"rank", rank.rank.value}, {"process", rank.process}, {"state", rank.state}, {"threads", threads}};
}

WaitReport wait_of(const Json& json) {
  WaitReport wait{json.at("operation").get<std::string>(),
                  json.at("bytes").get<std::uint64_t>(),
                  {},
                  json.at("seconds").get<double>()};
  if (json.contains("rank")) wait.rank = Rank(json.at("rank").get<int>());
  return wait;
}

ThreadReport thread_of(const Json& json) {
  ThreadReport thread;
  thread.name = json.at("name").get<std::string>();
  thread.phase = json.at("phase").get<std::string>();
  thread.seconds = json.at("seconds").get<double>();
  thread.state = json.at("state").get<std::string>();
  thread.kernel = json.at("kernel").get<std::string>();
  thread.stack = json.at("stack").get<std::vector<std::string>>();
  if (json.contains("step")) thread.step = json.at("step").get<std::int64_t>();
  if (json.contains("wait")) thread.wait = wait_of(json.at("wait"));
  return thread;
}

RankReport rank_of(const Json& json) {
  RankReport rank{Rank(json.at("rank").get<int>()),
                  json.at("process").get<std::int64_t>(),
                  json.at("state").get<std::string>(),
                  {}};
  for (const auto& thread : json.at("threads")) rank.threads.push_back(thread_of(thread));
  return rank;
}
}  // namespace

std::string to_text(const NodeReport& report) {
  Json ranks = Json::array(), nodes = Json::array();
  for (const auto& rank : report.ranks) ranks.push_back(json_of(rank));
  for (const auto& node : report.nodes)
    nodes.push_back({{"host", node.host}, {"has_ranks", node.has_ranks}, {"silent_seconds", node.silent_seconds}});
  const Json json{
      {"host", report.host}, {"node", report.node}, {"note", report.note}, {"ranks", ranks}, {"nodes", nodes}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<NodeReport> node_report_from(const std::string& text) try {
  const Json json = Json::parse(text);
  NodeReport report;
  report.host = json.at("host").get<std::string>();
  report.node = json.at("node").get<std::uint32_t>();
  report.note = json.at("note").get<std::string>();
  for (const auto& rank : json.at("ranks")) report.ranks.push_back(rank_of(rank));
  for (const auto& node : json.at("nodes"))
    report.nodes.push_back({node.at("host").get<std::string>(), node.at("has_ranks").get<bool>(),
                            node.at("silent_seconds").get<double>()});
  return report;
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace distdl::agent
