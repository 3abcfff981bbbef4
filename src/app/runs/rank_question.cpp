// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include <distdl/agent/inspector.hpp>
#include <distdl/app/runs/rank_question.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>

namespace distdl::app {
namespace {
using agent::NodeReport;

/// A folder below the run folder, removed at the end.
class Question {
 public:
  explicit Question(const std::filesystem::path& run_folder)
      : all_(agent::questions_folder(run_folder)), folder_(all_ / random_hex(6)) {
    remove_old();
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    require<StorageError>(!error, "cannot ask in \"{}\": {}", folder_.string(), error.message());
  }
  ~Question() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    std::filesystem::remove(all_, ignored);  // unless others ask too
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  /// Those that have not been read yet.
  std::vector<NodeReport> new_answers() {
    constexpr std::size_t kMostBytes = 64 << 20;
    std::vector<NodeReport> answers;
    std::error_code error;
    for (std::filesystem::directory_iterator one(folder_, error), end; !error && one != end; one.increment(error)) {
      const auto name = one->path().filename().string();
      if (name.starts_with('.') || read_.contains(name)) continue;
      try {
        if (auto report = agent::node_report_from(read_regular(one->path(), kMostBytes)))
          answers.push_back(*std::move(report));
        read_.insert(name);
      } catch (const StorageError& failure) {  // the next look may find it whole
        log(Severity::debug, "not read: {}", failure.what());
      }
    }
    return answers;
  }

 private:
  /// Of those who were killed while they asked.
  void remove_old() const {
    constexpr std::chrono::minutes kOld{10};
    std::error_code error, ignored;
    for (std::filesystem::directory_iterator one(all_, error), end; !error && one != end; one.increment(error)) {
      const auto time = one->last_write_time(ignored);
      if (!ignored && std::filesystem::file_time_type::clock::now() - time > kOld)
        std::filesystem::remove_all(one->path(), ignored);
    }
  }

  std::filesystem::path all_, folder_;
  std::set<std::string> read_;
};

bool has_answered(const RankAnswers& answers, std::size_t node) {
  return std::ranges::any_of(answers.nodes, [node](const NodeReport& one) { return one.node == node; });
}

/// Nodes with ranks that have not answered, as the others see them.
std::vector<SilentNode> silent_nodes(const RankAnswers& answers) {
  std::vector<SilentNode> silent;
  if (answers.nodes.empty()) return silent;
  for (std::size_t n = 0; n < answers.nodes.front().nodes.size(); ++n) {
    SilentNode found;
    for (const NodeReport& from : answers.nodes) {
      if (n >= from.nodes.size() || !from.nodes[n].has_ranks || has_answered(answers, n)) continue;
      if (!found.host.empty() && from.nodes[n].silent_seconds >= found.silent_seconds) continue;
      found = {from.nodes[n].host, from.host, from.nodes[n].silent_seconds};
    }
    if (!found.host.empty()) silent.push_back(found);
  }
  return silent;
}
}  // namespace

std::vector<agent::RankReport> RankAnswers::ranks() const {
  std::vector<agent::RankReport> all;
  for (const NodeReport& node : nodes) all.insert(all.end(), node.ranks.begin(), node.ranks.end());
  std::ranges::sort(all, {}, &agent::RankReport::rank);
  return all;
}

std::string RankAnswers::host_of(Rank rank) const {
  for (const NodeReport& node : nodes)
    if (std::ranges::count(node.ranks, rank, &agent::RankReport::rank) > 0) return node.host;
  return "";
}

RankAnswers ask_about_ranks(const std::filesystem::path& run_folder, Milliseconds timeout) {
  constexpr Milliseconds kPeriod{50};
  Question question(run_folder);
  const Stopwatch watch;
  RankAnswers answers;
  for (const auto deadline = Deadline::after(timeout); !deadline.expired(); std::this_thread::sleep_for(kPeriod)) {
    for (auto& one : question.new_answers()) answers.nodes.push_back(std::move(one));
    answers.silent = silent_nodes(answers);
    if (!answers.nodes.empty() && answers.silent.empty()) break;
  }
  answers.waited_seconds = watch.seconds();
  std::ranges::sort(answers.nodes, {}, &NodeReport::node);
  return answers;
}

}  // namespace distdl::app
