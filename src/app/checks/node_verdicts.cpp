// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include <distdl/app/checks/node_verdicts.hpp>
#include <distdl/base/median.hpp>

namespace distdl::app {
namespace {
using Verdicts = std::vector<NodeVerdict>;

constexpr double kShortestFile = 0.1, kBytesOfFile = 4 << 20;  ///< seconds that are never slow, for so many bytes
constexpr double kShortestLatency = 1e-3;                      ///< seconds that are never slow

/// The worst verdict counts.
void set(NodeVerdict& verdict, NodeHealth health, const std::string& cause) {
  if (health <= verdict.health) return;
  verdict.health = health;
  verdict.cause = cause;
}

std::string cause_of(const std::map<std::string, std::string>& slow_in) {
  std::string causes;
  for (const auto& [name, value] : slow_in)
    causes += fmt::format("{}{}: {}", causes.empty() ? "" : " and ", name, value);
  return causes;
}

void set_slow(NodeVerdict& verdict, const std::string& name, const std::string& value) {
  verdict.slow_in[name] = value;
  if (verdict.health > NodeHealth::slow) return;
  verdict.health = NodeHealth::slow;
  verdict.cause = cause_of(verdict.slow_in);
}

/// Pointers to those that have computed, by kind.
std::map<std::string, std::vector<NodeVerdict*>> kinds_of(Verdicts& verdicts) {
  std::map<std::string, std::vector<NodeVerdict*>> kinds;
  for (auto& verdict : verdicts)
    if (!verdict.report.digest.empty()) kinds[verdict.report.kind].push_back(&verdict);
  return kinds;
}

/// Compares the digests of nodes of one kind, which should be equal. Marks those as wrong that differ from the
/// majority, or all of them without a majority.
void compare_digests(const std::vector<NodeVerdict*>& kind) {
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> names;
  for (const auto* one : kind) {
    ++counts[one->report.digest];
    names.push_back(one->node);
  }
  if (counts.size() < 2) return;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool is_majority = 2 * most->second > kind.size();
  const auto cause = is_majority
                         ? fmt::format("computes other gradients than {} nodes of its kind", most->second)
                         : fmt::format("{} compute different gradients, and no majority tells which one is right",
                                       fmt::join(names, " and "));
  for (auto* one : kind)
    if (!is_majority || one->report.digest != most->first) set(*one, NodeHealth::wrong, cause);
}

double median_of(const std::vector<NodeVerdict*>& nodes, double NodeCheckReport::*value) {
  std::vector<double> values;
  for (const auto* one : nodes)
    if (one->report.*value > 0) values.push_back(one->report.*value);
  return median(std::move(values));
}

/// A number of which more is better.
struct Speed {
  double NodeCheckReport::*value = nullptr;
  const char* name = "";
  double unit = 1;
  const char* unit_name = "";
  double fast_enough = 1e300;
};

void find_slow(const std::vector<NodeVerdict*>& nodes, const Speed& speed, double share) {
  const double usual = median_of(nodes, speed.value);
  for (auto* one : nodes) {
    const double own = one->report.*speed.value;
    if (own > 0 && own < share * usual && own < speed.fast_enough)
      set_slow(*one, speed.name,
               fmt::format("{:.3g} {}, the median is {:.3g}", own / speed.unit, speed.unit_name, usual / speed.unit));
  }
}

void find_late(const std::vector<NodeVerdict*>& nodes, double share) {
  const double usual = median_of(nodes, &NodeCheckReport::latency);
  for (auto* one : nodes) {
    const double own = one->report.latency;
    if (own > kShortestLatency && own * share > usual)
      set_slow(*one, "latency", fmt::format("{:.3g} us, the median is {:.3g}", own * 1e6, usual * 1e6));
  }
}

/// Those that did not reach the others, if most did.
void find_unconnected(const std::vector<NodeVerdict*>& nodes) {
  const auto count =
      std::count_if(nodes.begin(), nodes.end(), [](const auto* one) { return !one->report.unconnected.empty(); });
  if (2 * static_cast<std::size_t>(count) >= nodes.size()) return;
  for (auto* one : nodes)
    if (!one->report.unconnected.empty())
      set(*one, NodeHealth::silent, "cannot reach the others: " + one->report.unconnected);
}

std::string row_of(const std::string& name, const NodeCheckReport& report, const std::string& cause) {
  const auto cell = [](double value) { return value > 0 ? fmt::format("{:.1f}", value) : std::string("-"); };
  return fmt::format("{:<16}{:>10}{:>11}{:>11}{:>11}{:>12}  {}", name, cell(report.flops / 1e9),
                     cell(report.write_rate / 1e6), cell(report.read_rate / 1e6), cell(report.link_rate / 1e6),
                     cell(report.latency * 1e6), cause);
}
}  // namespace

Verdicts judge_nodes(const std::vector<std::string>& nodes, const std::vector<NodeCheckReport>& reports,
                     double slow_share) {
  Verdicts verdicts;
  verdicts.reserve(nodes.size());
  for (const auto& node : nodes) {
    auto& verdict = verdicts.emplace_back(NodeVerdict{node});
    const auto found =
        std::find_if(reports.begin(), reports.end(), [&](const NodeCheckReport& each) { return each.node == node; });
    if (found == reports.end()) {
      set(verdict, NodeHealth::silent, "has not reported");
      continue;
    }
    verdict.report = *found;
    if (!found->wrong.empty()) set(verdict, NodeHealth::wrong, found->wrong);
  }
  std::vector<NodeVerdict*> all;
  for (auto& verdict : verdicts)
    if (verdict.health != NodeHealth::silent) all.push_back(&verdict);
  for (const auto& [kind, members] : kinds_of(verdicts)) {
    compare_digests(members);
    find_slow(members, {&NodeCheckReport::flops, "matrix product", 1e9, "GFLOP/s"}, slow_share);
  }
  const double fast_file = kBytesOfFile / kShortestFile;
  find_slow(all, {&NodeCheckReport::write_rate, "writing", 1e6, "MB/s", fast_file}, slow_share);
  find_slow(all, {&NodeCheckReport::read_rate, "reading", 1e6, "MB/s", fast_file}, slow_share);
  find_slow(all, {&NodeCheckReport::link_rate, "network", 1e6, "MB/s"}, slow_share);
  find_late(all, slow_share);
  find_unconnected(all);
  return verdicts;
}

namespace {
/// Slow both times: it is slow in what was slow both times, as the second look has measured it.
NodeVerdict slow_twice(const NodeVerdict& first, NodeVerdict second) {
  std::erase_if(second.slow_in, [&](const auto& one) { return !first.slow_in.contains(one.first); });
  if (second.slow_in.empty()) second.health = NodeHealth::ok;
  second.cause = cause_of(second.slow_in);
  return second;
}
}  // namespace

Verdicts confirm(const Verdicts& first, const Verdicts& second) {
  Verdicts both;
  for (std::size_t i = 0; i < first.size() && i < second.size(); ++i) {
    if (first[i].health == NodeHealth::slow && second[i].health == NodeHealth::slow) {
      both.push_back(slow_twice(first[i], second[i]));
      continue;
    }
    const bool is_first_worse = first[i].health > second[i].health;
    const auto& worse = is_first_worse ? first[i] : second[i];
    const auto& better = is_first_worse ? second[i] : first[i];
    both.push_back(worse.health == NodeHealth::wrong ? worse : better);
  }
  return both;
}

Verdicts choose_excluded(const Verdicts& verdicts, std::size_t needed) {
  Verdicts bad;
  for (const auto& verdict : verdicts)
    if (verdict.health != NodeHealth::ok) bad.push_back(verdict);
  std::stable_sort(bad.begin(), bad.end(), [](const auto& a, const auto& b) { return a.health > b.health; });
  bad.resize(std::min(bad.size(), verdicts.size() - std::min(needed, verdicts.size())));
  return bad;
}

std::string unmeasured_links(const Verdicts& verdicts) {
  std::vector<std::string> names;
  std::string cause;
  for (const auto& verdict : verdicts) {
    if (verdict.health == NodeHealth::silent || verdict.report.unconnected.empty()) continue;
    names.push_back(verdict.node);
    cause = verdict.report.unconnected;
  }
  if (names.empty()) return "";
  return fmt::format("the links of {} were not measured: {}", fmt::join(names, " and "), cause);
}

std::vector<std::string> table_of(const Verdicts& verdicts) {
  std::vector<std::string> lines{fmt::format("{:<16}{:>10}{:>11}{:>11}{:>11}{:>12}", "node", "GFLOP/s", "write MB/s",
                                             "read MB/s", "link MB/s", "latency us")};
  std::vector<NodeVerdict> good;
  std::vector<NodeVerdict*> others;
  for (const auto& verdict : verdicts)
    if (verdict.health == NodeHealth::ok)
      good.push_back(verdict);
    else
      lines.push_back(row_of(verdict.node, verdict.report,
                             fmt::format("{}: {}", OneOf<NodeHealth>(verdict.health).name(), verdict.cause)));
  others.reserve(good.size());
  for (auto& verdict : good) others.push_back(&verdict);
  NodeCheckReport usual;
  for (const auto value : {&NodeCheckReport::flops, &NodeCheckReport::write_rate, &NodeCheckReport::read_rate,
                           &NodeCheckReport::link_rate, &NodeCheckReport::latency})
    usual.*value = median_of(others, value);
  const auto name = good.size() == 1 ? good[0].node : fmt::format("{} nodes", good.size());
  if (!good.empty()) lines.push_back(row_of(name, usual, good.size() == 1 ? "ok" : "ok, medians"));
  return lines;
}

}  // namespace distdl::app
