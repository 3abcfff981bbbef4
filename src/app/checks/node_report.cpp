// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <distdl/app/checks/node_report.hpp>

namespace distdl::app {

std::string to_text(const NodeCheckReport& report) {
  const nlohmann::ordered_json row{{"node", report.node},
                                   {"kind", report.kind},
                                   {"digest", report.digest},
                                   {"wrong", report.wrong},
                                   {"flops", report.flops},
                                   {"write_bytes_per_s", report.write_rate},
                                   {"read_bytes_per_s", report.read_rate},
                                   {"latency_s", report.latency},
                                   {"link_bytes_per_s", report.link_rate},
                                   {"unconnected", report.unconnected}};
  return row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<NodeCheckReport> node_report_from(const std::string& text) try {
  const auto row = nlohmann::json::parse(text);
  NodeCheckReport report;
  row.at("node").get_to(report.node);
  row.at("kind").get_to(report.kind);
  row.at("digest").get_to(report.digest);
  row.at("wrong").get_to(report.wrong);
  row.at("flops").get_to(report.flops);
  row.at("write_bytes_per_s").get_to(report.write_rate);
  row.at("read_bytes_per_s").get_to(report.read_rate);
  row.at("latency_s").get_to(report.latency);
  row.at("link_bytes_per_s").get_to(report.link_rate);
  row.at("unconnected").get_to(report.unconnected);
  return report;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
}

}  // namespace distdl::app
