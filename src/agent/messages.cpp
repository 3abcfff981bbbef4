// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/messages.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/version.hpp>

namespace distdl::agent {
namespace {
using Json = nlohmann::json;

std::vector<std::uint32_t> numbers(const std::vector<NodeId>& nodes) {
  std::vector<std::uint32_t> all;
  all.reserve(nodes.size());
  for (NodeId node : nodes) all.push_back(node.value);
  return all;
}

std::vector<NodeId> nodes_from(const Json& json) {
  std::vector<NodeId> nodes;
  for (const auto& number : json) nodes.emplace_back(whole<std::uint32_t>(number));
  return nodes;
}

/// Texts for people may hold any bytes.
Json text_of(const std::string& bytes) {
  return Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json json_of(const Origin& origin) {
  Json json{{"kind", static_cast<int>(origin.kind)}};
  if (origin.node) json["node"] = origin.node->value;
  if (origin.rank) json["rank"] = *origin.rank;
  return json;
}

Json json_of(const AgentAddress& agent) {
  return {{"host", text_of(agent.host)}, {"address", agent.address}, {"nonce", agent.nonce}};
}

AgentAddress address_of(const Json& json) {
  return {json.at("host").get<std::string>(), json.at("address").get<std::string>(),
          json.at("nonce").get<std::string>()};
}

/// A kind that this version does not know is unknown.
Origin origin_of(const Json& json) {
  Origin origin;
  const auto kind = whole<std::uint8_t>(json.at("kind"));
  if (kind <= static_cast<std::uint8_t>(kLastCauseKind)) origin.kind = static_cast<CauseKind>(kind);
  if (json.contains("node")) origin.node = NodeId(whole<std::uint32_t>(json.at("node")));
  if (json.contains("rank")) origin.rank = whole<std::int32_t>(json.at("rank"));
  return origin;
}

Json json_of(const Decision& decision) {
  Json failures = Json::array();
  for (const auto& one : decision.node_failures) failures.push_back({one.node.value, one.count});
  Json json{{"generation", decision.generation.value},
            {"members", numbers(decision.members)},
            {"spares", numbers(decision.spares)},
            {"cause", text_of(decision.cause)},
            {"origin", json_of(decision.origin)},
            {"wrong", numbers(decision.wrong)},
            {"newcomers", numbers(decision.newcomers)},
            {"crashed_after", decision.crashed_after},
            {"progress", decision.progress},
            {"failures", decision.failures},
            {"losses", decision.losses},
            {"node_failures", failures}};
  if (decision.end) json["end"] = *decision.end;
  if (decision.proposer) json["proposer"] = decision.proposer->value;
  return json;
}

Decision decision_of(const Json& json) {
  Decision decision;
  decision.generation = Generation(whole<std::uint32_t>(json.at("generation")));
  decision.members = nodes_from(json.at("members"));
  decision.spares = nodes_from(json.at("spares"));
  decision.cause = json.at("cause").get<std::string>();
  decision.origin = origin_of(json.at("origin"));
  decision.wrong = nodes_from(json.at("wrong"));
  decision.newcomers = nodes_from(json.value("newcomers", Json::array()));
  decision.crashed_after = whole<std::int64_t>(json.at("crashed_after"));
  decision.progress = whole<std::int64_t>(json.at("progress"));
  decision.failures = whole<std::uint32_t>(json.at("failures"));
  decision.losses = whole<std::uint32_t>(json.at("losses"));
  for (const auto& one : json.at("node_failures"))
    decision.node_failures.push_back({NodeId(whole<std::uint32_t>(one.at(0))), whole<std::uint32_t>(one.at(1))});
  if (json.contains("end")) decision.end = whole<int>(json.at("end"));
  if (json.contains("proposer")) decision.proposer = NodeId(whole<std::uint32_t>(json.at("proposer")));
  return decision;
}

Status status_of(const Json& json) {
  Status status;
  status.node = NodeId(whole<std::uint32_t>(json.at("node")));
  status.sequence = whole<std::uint64_t>(json.at("sequence"));
  status.decision = decision_of(json.at("decision"));
  status.phase = static_cast<Phase>(whole<std::uint8_t>(json.at("phase")));
  status.code = whole<int>(json.at("code"));
  status.cause = json.at("cause").get<std::string>();
  status.origin = origin_of(json.at("origin"));
  status.step = whole<std::int64_t>(json.at("step"));
  status.has_trained = json.value("has_trained", false);
  status.fault = json.at("fault").get<std::string>();
  status.regrow = json.at("regrow").get<bool>();
  status.stop = json.at("stop").get<bool>();
  status.progress = whole<std::int64_t>(json.at("progress"));
  for (char c : json.at("hears").get<std::string>()) status.hears.push_back(c == '1');
  status.drain = json.at("drain").get<bool>();
  status.leave = json.at("leave").get<bool>();
  return status;
}

/// Nothing if the text is none that `read` takes.
template <class Read>
auto parsed(const std::string& text, Read read) -> std::optional<decltype(read(Json()))> try {
  return read(Json::parse(text));
} catch (const Json::exception&) {
  return std::nullopt;
} catch (const StorageError&) {  // no whole number
  return std::nullopt;
}

/// Describes what is wrong with the values of a record; empty: nothing.
std::string problem_of(const LaunchRecord& record) {
  constexpr int kMostRanks = 1 << 20;
  const bool is_name = !record.id.empty() && !record.id.starts_with('.') && record.id.find('/') == std::string::npos;
  if (!is_name) return fmt::format("\"{}\" is no id of a launch", record.id);
  if (record.ranks < 1 || record.ranks > kMostRanks) return fmt::format("it has {} ranks", record.ranks);
  if (record.min_nodes < 1) return fmt::format("it needs {} nodes", record.min_nodes);
  if (record.agents.empty() || record.agents.size() > kMostNodes)
    return fmt::format("it has {} agents", record.agents.size());
  if (record.arguments.empty()) return "it has no job file";
  return record.secret.empty() ? "it has no secret" : "";
}

/// The version comes first: the rest of another one's record may look otherwise.
LaunchRecord record_of(const Json& json) {
  LaunchRecord record;
  json.at("version").get_to(record.version);
  require(record.version == DISTDL_VERSION, "the run was started by distdl {}, which this distdl, {}, cannot join",
          record.version, DISTDL_VERSION);
  json.at("id").get_to(record.id);
  json.at("job").get_to(record.job);
  json.at("arguments").get_to(record.arguments);
  json.at("more").get_to(record.more);
  json.at("folder").get_to(record.folder);
  record.ranks = whole<int>(json.at("ranks"));
  record.min_nodes = whole<int>(json.at("min_nodes"));
  json.at("variables").get_to(record.variables);
  for (const auto& agent : json.at("agents")) record.agents.push_back(address_of(agent));
  json.at("secret").get_to(record.secret);
  return record;
}
}  // namespace

std::string to_text(const AgentAddress& agent) {
  return json_of(agent).dump();
}

std::optional<AgentAddress> address_from(const std::string& text) {
  return parsed(text, address_of);
}

std::string to_text(const LaunchRecord& record) {
  Json agents = Json::array();
  for (const auto& agent : record.agents) agents.push_back(json_of(agent));
  return Json{{"id", record.id},
              {"version", record.version},
              {"job", text_of(record.job)},
              {"arguments", record.arguments},
              {"more", record.more},
              {"folder", record.folder},
              {"ranks", record.ranks},
              {"min_nodes", record.min_nodes},
              {"variables", record.variables},
              {"agents", agents},
              {"secret", record.secret}}
      .dump();
}

LaunchRecord launch_record_from(const std::string& text, const std::filesystem::path& file) {
  std::string problem;
  try {
    auto record = record_of(Json::parse(text));
    problem = problem_of(record);
    if (problem.empty()) return record;
  } catch (const Json::exception& error) {
    problem = error.what();
  } catch (const StorageError& error) {
    problem = error.what();
  }
  throw StorageError(
      fmt::format("\"{}\" is damaged: {}; requeue the run, whose next launch can be joined", file.string(), problem),
      ExitCode::corrupt);
}

std::string to_text(const Decision& decision) {
  return json_of(decision).dump();
}

std::optional<Decision> decision_from(const std::string& text) {
  return parsed(text, decision_of);
}

std::string to_text(const Status& status) {
  std::string hears;
  for (bool one : status.hears) hears += one ? '1' : '0';
  return Json{{"node", status.node.value},
              {"sequence", status.sequence},
              {"decision", json_of(status.decision)},
              {"phase", static_cast<int>(status.phase)},
              {"code", status.code},
              {"cause", text_of(status.cause)},
              {"origin", json_of(status.origin)},
              {"step", status.step},
              {"has_trained", status.has_trained},
              {"fault", text_of(status.fault)},
              {"regrow", status.regrow},
              {"stop", status.stop},
              {"progress", status.progress},
              {"hears", hears},
              {"drain", status.drain},
              {"leave", status.leave}}
      .dump();
}

std::optional<Status> status_from(const std::string& text) {
  auto status = parsed(text, status_of);
  if (status && status->phase > Phase::ended) return std::nullopt;
  return status;
}

}  // namespace distdl::agent
