// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/agent/rank_look.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/rank_question.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/runs/wait_chain.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {
namespace {
using agent::RankReport;
using agent::ThreadReport;

struct WhyArguments {
  RunArgument run;
  int timeout = 10;  ///< seconds
  bool json = false;
};

/// Findings of "distdl why".
struct Findings {
  RunReport run;
  RankAnswers answers;
  std::vector<RankReport> ranks;
  std::vector<WaitChain> chains;
};

std::string text_of(const SilentNode& node, double waited) {
  constexpr double kRecent = 2;
  const std::string guess = node.silent_seconds < kRecent
                                ? "its agent lives, but the file system of the run folder does not answer there"
                                : "it is frozen or cut off";
  return fmt::format("node {} has not answered for {}; {} heard it {} ago: {}", node.host, short_seconds(waited),
                     node.heard_by, short_seconds(node.silent_seconds), guess);
}

/// The state of the process "distdl run", if it is one of this machine.
std::string state_of_holder(const launch::Holder& holder) {
  const auto self = launch::Holder::self();
  if (holder.host != self.host || holder.boot != self.boot || holder.pid_space != self.pid_space) return "";
  const auto pid = static_cast<pid_t>(holder.pid);
  return text_of_state(agent::state_of_process(pid, pid));
}

/// Where nobody at all answers.
std::string silence(const Findings& found) {
  std::string text = fmt::format("nobody has answered for {}", short_seconds(found.answers.waited_seconds));
  if (!found.run.holder) return text + ": the job is starting or ending, or its nodes cannot reach the run folder";
  const auto& holder = *found.run.holder;
  text += fmt::format(": \"distdl run\" is process {} on {}", holder.pid, holder.host);
  const auto state = state_of_holder(holder);
  return text + (state.empty() ? ", which is starting or ending ranks, frozen or cut off" : ", which is " + state);
}

std::string row_of(const RankReport& rank, const std::string& host) {
  std::string at = "starting", step, time, waits = text_of_state(rank.state);
  if (!rank.threads.empty()) {
    const ThreadReport& thread = rank.threads.front();
    at = thread.phase;
    if (thread.step) step = fmt::format("{}", *thread.step);
    time = short_seconds(thread.seconds);
    if (waits.empty() && thread.wait)
      waits = fmt::format("{}{} in {}{}", thread.wait->rank ? fmt::format("for rank {}", *thread.wait->rank) : "",
                          thread.wait->rank ? "" : "for its own work", thread.wait->operation,
                          thread.wait->bytes > 0 ? fmt::format(" of {} bytes", thread.wait->bytes) : "") +
              fmt::format(", {}", short_seconds(thread.wait->seconds));
  }
  const auto row = fmt::format("{:>5}  {:<12} {:<11}{:>9}{:>10}  {}", rank.rank, host, at, step, time, waits);
  return row.substr(0, row.find_last_not_of(' ') + 1);
}

/// All ranks, or of very many those that wait for no other.
std::string table_of(const Findings& found) {
  constexpr std::size_t kMostRows = 32;
  std::string text = fmt::format("{:>5}  {:<12} {:<11}{:>9}{:>10}  {}\n", "rank", "node", "at", "step", "for", "waits");
  std::size_t rows = 0;
  const bool all = found.ranks.size() <= kMostRows;
  for (const RankReport& rank : found.ranks) {
    const bool waits = !rank.threads.empty() && rank.threads.front().wait && rank.threads.front().wait->rank;
    if (!all && (rows == kMostRows || (waits && text_of_state(rank.state).empty()))) continue;
    text += printable(row_of(rank, found.answers.host_of(rank.rank))) + "\n";
    ++rows;
  }
  if (rows < found.ranks.size())
    text += fmt::format("{:>5}  {} more ranks; --json has all\n", "", found.ranks.size() - rows);
  return text;
}

bool is_program(const ThreadReport& thread) {
  return thread.name == "program";
}

/// The stacks of a rank's threads; where it runs a program, only the program's.
std::string stacks_of(const RankReport& rank) {
  std::string text;
  const bool has_program = std::ranges::any_of(rank.threads, is_program);
  for (const ThreadReport& thread : rank.threads) {
    if (thread.phase == "idle" || (has_program && !is_program(thread))) continue;
    const auto title = fmt::format("rank {}, thread \"{}\" in {}", rank.rank, thread.name, thread.phase);
    if (thread.stack.empty()) {
      const auto held = thread.kernel.empty() ? "" : fmt::format("; the kernel holds it in {}", thread.kernel);
      text += printable(fmt::format("{}: no stack, it is in state {}{}", title, thread.state, held)) + "\n";
      continue;
    }
    text += printable(title) + ":\n";
    for (std::size_t i = 0; i < thread.stack.size(); ++i)
      text += fmt::format("  #{:<2} {}\n", i, printable(thread.stack[i]));
  }
  return text;
}

/// The ends that matter: those for which others wait; if there is none, the rank that is longest at one thing.
std::vector<WaitChain> worst_of(const Findings& found) {
  constexpr std::size_t kMost = 3;
  std::vector<WaitChain> worst;
  for (const WaitChain& chain : found.chains)
    if ((chain.waiting > 0 || chain.end == WaitChain::End::stopped) && worst.size() < kMost) worst.push_back(chain);
  if (!worst.empty() || found.chains.empty()) return worst;
  const auto seconds = [&](const WaitChain& chain) {
    const auto& threads = std::ranges::find(found.ranks, chain.ranks.front(), &RankReport::rank)->threads;
    return threads.empty() ? 0 : threads.front().seconds;
  };
  return {*std::ranges::max_element(found.chains, {}, seconds)};
}

/// The stacks of the ranks' programs: nobody knows which of them waits for another one.
std::string programs_of(const Findings& found) {
  constexpr int kMost = 8;
  std::string text;
  int left = kMost;
  for (const RankReport& rank : found.ranks)
    if (std::ranges::any_of(rank.threads, is_program) && left-- > 0) text += "\n" + stacks_of(rank);
  if (left < 0) text += fmt::format("\n{} more programs; --json has all\n", -left);
  return text;
}

std::string to_text(const Findings& found) {
  std::string text = fmt::format("run    {}  {}\nstate  {}\n", found.run.id, printable(found.run.folder.string()),
                                 found.run.state.word);
  for (const auto& node : found.answers.nodes)
    if (!node.note.empty()) text += fmt::format("{}: {}\n", printable(node.host), printable(node.note));
  if (!found.ranks.empty()) text += "\n" + table_of(found);
  text += "\n";
  for (const auto& node : found.answers.silent) text += printable(text_of(node, found.answers.waited_seconds)) + "\n";
  if (found.answers.nodes.empty()) text += printable(silence(found)) + "\n";
  for (const WaitChain& chain : worst_of(found)) {
    text += printable(sentence_of(chain, found.ranks)) + "\n";
    const auto end = std::ranges::find(found.ranks, chain.ranks.back(), &RankReport::rank);
    const bool is_shown_below = end != found.ranks.end() && std::ranges::any_of(end->threads, is_program);
    if (end != found.ranks.end() && chain.end == WaitChain::End::busy && !is_shown_below)
      text += "\n" + stacks_of(*end);
  }
  return text + programs_of(found);
}

nlohmann::ordered_json to_json(const Findings& found) {
  auto nodes = nlohmann::ordered_json::array(), chains = nodes, silent = nodes;
  for (const auto& node : found.answers.nodes) nodes.push_back(nlohmann::ordered_json::parse(agent::to_text(node)));
  for (const auto& node : found.answers.silent)
    silent.push_back({{"host", node.host},
                      {"heard_by", node.heard_by},
                      {"silent_seconds", node.silent_seconds},
                      {"text", text_of(node, found.answers.waited_seconds)}});
  static constexpr const char* kEnds[] = {"busy", "stopped", "unknown", "circle", "passing"};
  for (const WaitChain& chain : found.chains) {
    auto ranks = nlohmann::ordered_json::array();
    for (Rank rank : chain.ranks) ranks.push_back(rank.value);
    chains.push_back({{"ranks", std::move(ranks)},
                      {"end", kEnds[static_cast<std::size_t>(chain.end)]},
                      {"waiting", chain.waiting},
                      {"text", sentence_of(chain, found.ranks)}});
  }
  return {{"run", found.run.id},       {"run_dir", found.run.folder.string()}, {"state", found.run.state.word},
          {"nodes", std::move(nodes)}, {"silent", std::move(silent)},          {"chains", std::move(chains)}};
}

/// A run that is not at work has no ranks: this says why not.
void require_ranks(const RunReport& report) {
  const auto& state = report.state;
  const auto& restarts = report.summary.restarts;
  const auto& failure = report.summary.failure;
  require<UsageError>(state.is_live && state.word != "queued", "the run \"{}\" is {}{}{}{}{}: it has no ranks",
                      report.folder.string(), state.word, state.explanation.empty() ? "" : ", ", state.explanation,
                      failure.empty() ? "" : fmt::format("; the cause: {}", failure),
                      restarts.empty() ? "" : fmt::format("; its last restart was after: {}", restarts.back().cause));
}

void tell_why(const WhyArguments& arguments) {
  Findings found;
  const auto folder = arguments.run.find();
  auto summary = observe::summarize_run(folder);
  auto jobs = ask_job_states(jobs_of_interest(summary));
  found.run = make_report(folder, std::move(summary), std::move(jobs));
  require_ranks(found.run);
  found.answers = ask_about_ranks(folder, std::chrono::seconds(arguments.timeout));
  found.ranks = found.answers.ranks();
  found.chains = wait_chains(found.ranks);
  if (arguments.json)
    fmt::print("{}\n", to_json(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}", to_text(found));
  if (found.answers.nodes.empty()) throw Ended(static_cast<int>(ExitCode::peer_lost));
}
}  // namespace

void add_why_command(Command app) {
  auto command = app.add_subcommand(
      "why", "Tell what each rank of a run is at, which rank the others wait for, and where that one is");
  auto arguments = std::make_shared<WhyArguments>();
  arguments->run.add_to(command);
  command.add_option("--timeout", arguments->timeout, "Wait for the answers of the nodes for at most so many seconds")
      .type_name("SECONDS")
      .positive()
      .show_default();
  command.add_flag("--json", arguments->json, "Print JSON, with the threads and stacks of all ranks");
  command.examples({{"distdl why run", "See which rank the others wait for"},
                    {"distdl why 4711 --timeout 5", "Ask the run of a job, for at most 5 seconds"}});
  command.callback([arguments] { tell_why(*arguments); });
}

}  // namespace distdl::app
