// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>

#include <fmt/format.h>

#include <distdl/agent/inspector.hpp>
#include <distdl/app/runs/rank_question.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/own_folder.hpp>

namespace distdl::app {
namespace {
using agent::NodeReport;

/// The names of answers, see agent::Inspector.
bool is_answer(const std::string& name) {
  return name.starts_with('.') || name.ends_with(".json");
}

constexpr std::size_t kNameBytes = 6;

bool is_question(const std::string& name) {
  return name.size() == 2 * kNameBytes && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// A folder below the run folder, removed at the end.
class Question {
 public:
  explicit Question(const std::filesystem::path& run_folder)
      : all_(agent::questions_folder(resolved(run_folder))), folder_(all_ / random_hex(kNameBytes)) {
    make_folders(real_file_system(), all_);
    remove_old();
    make_folders(real_file_system(), folder_);
  }
  ~Question() {
    remove_own_folder(folder_, is_answer);
    real_file_system().rmdir(all_.c_str());  // unless others ask too
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
  /// Removes the questions of processes that were killed while they asked.
  void remove_old() const try {
    constexpr std::chrono::minutes kOld{10};
    for (const std::string& name : names_in(all_)) {
      std::error_code error;
      const auto time = std::filesystem::last_write_time(all_ / name, error);
      const bool is_old = !error && std::filesystem::file_time_type::clock::now() - time > kOld;
      if (is_old && is_question(name)) remove_own_folder(all_ / name, is_answer);
    }
  } catch (const FileError& error) {
    if (error.number() != ENOENT) throw;  // who asks beside this one has just removed the folder
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
