// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/end_limit.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/observe/health/failure_examples.hpp>
#include <distdl/observe/health/failure_watch.hpp>

namespace distdl::observe {
namespace {
constexpr int kAlarms = 2;  ///< readings in a row that make a node one at risk

/// The feature that contributes most.
const char* sign_of(const health::FailurePredictor& predictor, const health::Features& features) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < health::kFeatures; ++i)
    if (predictor.weights[i] * features[i] > predictor.weights[most] * features[most]) most = i;
  return health::kFeatureNames[most];
}

/// The last row of the journal that tells how fast the ranks are.
records::SharesKnown last_shares(const std::filesystem::path& run_folder) {
  constexpr std::size_t kTail = 1 << 20;
  records::SharesKnown last;
  for_each_record(
      run_folder / "journal.jsonl",
      [&](const records::Row& row) {
        if (const auto* const shares = row.as<records::SharesKnown>()) last = *shares;
      },
      kTail);
  return last;
}
}  // namespace

FailureWatch::FailureWatch(std::filesystem::path run_folder, const health::FailurePredictor& predictor,
                           Clock::duration between_saves, std::string host)
    : run_folder_(std::move(run_folder)),
      predictor_(predictor),
      between_saves_(between_saves),
      host_(std::move(host)),
      journal_(run_folder_) {}

FailureWatch::~FailureWatch() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  const bool stops = stop_was_sent();
  const EndLimit limit("the reader of health/*.jsonl", std::chrono::seconds(stops ? 10 : 600),
                       stops ? ExitCode::requeue : ExitCode::storage);
  if (thread_.joinable()) thread_.join();
}

void FailureWatch::start() {
  constexpr long long kPeriod = 30000, kShortest = 10;
  const Milliseconds period(std::max(kShortest, env_integer("DISTDL_FAILURE_WATCH_MS").value_or(kPeriod)));
  const SignalsBlocked blocked;
  thread_ = std::thread([this, period] {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      lock.unlock();
      look();
      lock.lock();
      changed_.wait_for(lock, period, [this] { return ends_; });
    }
  });
}

void FailureWatch::look() {
  const records::SharesKnown shares = last_shares(run_folder_);
  auto rows = read_health(run_folder_, host_);
  std::lock_guard lock(mutex_);
  for (const HealthRow& row : rows) {
    const double slowdown = slowdown_of(shares, row.host);
    take(row, slowdown);
  }
}

void FailureWatch::take(const HealthRow& row, double slowdown) {
  constexpr double kLongest = 300;  // seconds between two readings that are compared
  Node& node = nodes_[row.host];
  const HealthRow before = std::exchange(node.last, row);
  const double seconds = row.time - before.time;
  if (seconds == 0) return;  // the node has told nothing new
  if (seconds < 0 || seconds > kLongest) {
    node.alarms = 0;
    return;
  }
  const auto features = health::features_of(before.health, row.health, seconds, slowdown);
  if (!predictor_.is_at_risk(features)) {
    node.alarms = 0;
    return;
  }
  if (++node.alarms != kAlarms) return;
  const records::NodeAtRisk event{row.host, sign_of(predictor_, features), predictor_.risk(features)};
  log(Severity::warning, "node {} may fail soon (risk {:.2f}, most of all by {}): checkpoints are made more often",
      event.host, event.risk, event.cause);
  journal_.append(event);
}

bool FailureWatch::wants_save() {
  std::lock_guard lock(mutex_);
  const bool is_at_risk =
      std::any_of(nodes_.begin(), nodes_.end(), [](const auto& each) { return each.second.alarms >= kAlarms; });
  if (!is_at_risk || Clock::now() < next_save_) return false;
  next_save_ = Clock::now() + between_saves_;
  return true;
}

std::vector<std::string> FailureWatch::nodes_at_risk() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> nodes;
  for (const auto& [host, node] : nodes_)
    if (node.alarms >= kAlarms) nodes.push_back(host);
  return nodes;
}

}  // namespace distdl::observe
