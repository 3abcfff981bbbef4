// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/observe/health/failure_examples.hpp>
#include <distdl/observe/journal.hpp>

namespace distdl::observe {
namespace {
namespace fs = std::filesystem;
constexpr double kHorizon = 1800;             // seconds before a failure that count as signs of it
constexpr double kPause = 180;                // seconds without a row: the node was gone
constexpr double kLongestStep = 90;           // seconds between two readings that are compared
constexpr std::size_t kMostBytes = 64 << 20;  // of a node: some months; the newest ones

/// The journal notes a loss before or after the last row of the node.
bool has_loss(const std::vector<records::Row>& journal, double last_row) {
  constexpr double kBefore = 60, kAfter = 300;
  return std::any_of(journal.begin(), journal.end(), [&](const records::Row& row) {
    const auto* const started = row.as<records::Started>();
    const bool is_loss = row.is<records::NodeLost, records::GenerationFailed>() || (started && started->interrupted);
    return is_loss && row.time > last_row - kBefore && row.time < last_row + kAfter;
  });
}

double slowdown_at(const std::vector<records::Row>& journal, const std::string& host, double time) {
  double slowdown = 1;
  for (const records::Row& row : journal) {
    if (row.time > time) break;
    if (const auto* const shares = row.as<records::SharesKnown>()) slowdown = slowdown_of(*shares, host);
  }
  return slowdown;
}

/// Adds the examples of one node. `rows`: in the order of time. `run_end`: time of the last row of any node.
void add_examples(std::vector<health::Example>& all, const std::vector<HealthRow>& rows,
                  const std::vector<records::Row>& journal, double run_end) {
  std::size_t first = 1;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const bool is_last = i + 1 == rows.size();
    const double next = is_last ? run_end : rows[i + 1].time;
    const bool is_gone = next - rows[i].time > kPause;
    if (!is_gone && !is_last) continue;
    const bool failed = is_gone && has_loss(journal, rows[i].time);
    for (; first <= i; ++first) {
      const HealthRow &before = rows[first - 1], &now = rows[first];
      const double seconds = now.time - before.time;
      if (seconds <= 0 || seconds > kLongestStep) continue;
      const double slowdown = slowdown_at(journal, now.host, now.time);
      all.push_back({health::features_of(before.health, now.health, seconds, slowdown),
                     failed && rows[i].time - now.time < kHorizon});
    }
  }
}
}  // namespace

double slowdown_of(const records::SharesKnown& shares, const std::string& host) {
  double slowest = 0;
  for (std::size_t r = 0; r < shares.hosts.size(); ++r)
    if (shares.hosts[r] == host) slowest = std::max(slowest, shares.microbatch_seconds[r]);
  const double middle = median(shares.microbatch_seconds);
  return slowest > 0 && middle > 0 ? slowest / middle : 1;
}

std::vector<health::Example> read_examples(const fs::path& run_folder) {
  const auto journal = read_journal(run_folder);
  std::vector<std::vector<HealthRow>> nodes;
  std::error_code error;  // there is no folder, or it cannot be read now
  double run_end = 0;
  for (fs::directory_iterator entry(run_folder / kHealthFolder, error), end; !error && entry != end;
       entry.increment(error))
    try {
      if (entry->path().extension() != ".jsonl") continue;  // a file that is thinned out
      nodes.push_back(health_rows_of(read_end_of_regular(entry->path(), kMostBytes)));
      if (!nodes.back().empty()) run_end = std::max(run_end, nodes.back().back().time);
    } catch (const StorageError& failure) {
      log(Severity::warning, "not read: {}", failure.what());
    }
  std::vector<health::Example> examples;
  for (const auto& rows : nodes) add_examples(examples, rows, journal, run_end);
  return examples;
}

std::string to_text(const health::FailurePredictor& predictor) {
  nlohmann::ordered_json weights;
  for (std::size_t i = 0; i < health::kFeatures; ++i) weights[health::kFeatureNames[i]] = predictor.weights[i];
  const nlohmann::ordered_json json{{"weights", weights}, {"bias", predictor.bias}, {"threshold", predictor.threshold}};
  return json.dump(2) + "\n";
}

health::FailurePredictor read_predictor(const fs::path& file) try {
  constexpr std::size_t kMost = 64 << 10;
  const auto json = nlohmann::json::parse(read_regular(file, kMost));
  health::FailurePredictor predictor;
  require(json.at("weights").size() == health::kFeatures, "it has other features");
  for (std::size_t i = 0; i < health::kFeatures; ++i)
    predictor.weights[i] = json.at("weights").at(health::kFeatureNames[i]).get<double>();
  predictor.bias = json.at("bias").get<double>();
  predictor.threshold = json.at("threshold").get<double>();
  return predictor;
} catch (const std::exception& error) {
  pass_on_shortage(error);
  throw ConfigError(
      fmt::format("run.failure_predictor \"{}\" is no predictor that \"distdl health --train\" has written: {}",
                  file.string(), error.what()));
}

}  // namespace distdl::observe
