// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/checks/signal_trial.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {
namespace {
constexpr std::array kStages{TrialStage::tasks, TrialStage::batch, TrialStage::srun, TrialStage::by_warning};

double start_of(const SignalTrial& trial) {
  return trial.stages.empty() ? 0 : trial.stages.front().time;
}

std::optional<double> time_of(const SignalTrial& trial, TrialStage stage) {
  for (const auto& each : trial.stages)
    if (each.stage == stage) return each.time;
  return std::nullopt;
}

/// When the process first got the signal, from `from` on.
std::optional<double> first(const TrialProcess& process, const std::string& signal, double from) {
  for (const auto& event : process.events)
    if (event.signal == signal && event.time >= from) return event.time;
  return std::nullopt;
}

/// Delivery of a signal to the processes of one part: how many received it, and when the last of them did.
struct Delivery {
  int got = 0, all = 0;
  double last = 0;
  bool is_complete() const { return all > 0 && got == all; }
};

Delivery delivery(const SignalTrial& trial, const std::string& part, const std::string& signal, double from) {
  Delivery found;
  for (const auto& process : trial.processes) {
    if (process.part != part) continue;
    ++found.all;
    const auto time = first(process, signal, from);
    if (!time) continue;
    ++found.got;
    found.last = std::max(found.last, *time);
  }
  if (part == "task") found.all = std::max(found.all, trial.tasks);
  return found;
}

std::string tasks_text(const Delivery& tasks, double from) {
  return tasks.got == 0 ? fmt::format("none of {} tasks got it", tasks.all)
                        : fmt::format("{} of {} tasks got it, the last one after {:.1f} s", tasks.got, tasks.all,
                                      tasks.last - from);
}

Finding judge_preemption(const SignalTrial& trial, double from) {
  const auto tasks = delivery(trial, "task", "TERM", from);
  return {
      "preemption", tasks.is_complete() ? Health::ok : Health::fail, "SIGTERM to all tasks: " + tasks_text(tasks, from),
      tasks.is_complete() ? "" : "ranks would not save when the job is preempted; ask the site about its TaskPlugin"};
}

Finding judge_batch(const SignalTrial& trial, double from) {
  const auto script = delivery(trial, "batch", "USR2", from), supervisor = delivery(trial, "supervisor", "USR2", from);
  const auto tasks = delivery(trial, "task", "USR1", from);
  if (!script.is_complete())
    return {"script", Health::fail, "it did not get the signal that was sent to it alone",
            "\"scancel --batch\" does not work here"};
  if (!supervisor.is_complete())
    return {"script", Health::fail, "its trap did not pass the signal on", "use sbatch/train.sbatch as it is"};
  return {"script", tasks.is_complete() ? Health::ok : Health::fail,
          fmt::format("SIGUSR2 to it alone, passed on by srun as SIGUSR1: {}", tasks_text(tasks, from)),
          tasks.is_complete() ? "" : "srun does not pass SIGUSR1 on to its tasks"};
}

Finding judge_srun(const SignalTrial& trial, double from) {
  const auto tasks = delivery(trial, "task", "INT", from);
  return {"srun", tasks.is_complete() ? Health::ok : Health::warn, "SIGINT to srun: " + tasks_text(tasks, from),
          tasks.is_complete() ? "" : "Ctrl-C in an allocation would not reach the ranks through srun"};
}

Finding judge_warning(const SignalTrial& trial, double from) {
  const auto script = delivery(trial, "batch", "USR1", 0);
  if (!script.is_complete())
    return {"--signal", Health::fail, "Slurm did not send the USR1 that --signal=B:USR1@60 asks for",
            "the run stops by its own clock only; does the site change --signal, or its time limits?"};
  const auto tasks = delivery(trial, "task", "USR1", std::max(from, script.last));
  const std::string before =
      trial.limits.end
          ? fmt::format("{:.0f} s before the end of the job",
                        std::chrono::duration<double>(trial.limits.end->time_since_epoch()).count() - script.last)
          : "at a time";
  return {"--signal", tasks.is_complete() ? Health::ok : Health::fail,
          fmt::format("Slurm's USR1 came {} (it looks each 30 s); {}", before, tasks_text(tasks, script.last)),
          tasks.is_complete() ? "" : "the script got it, but not all ranks did"};
}

std::string preemption_text(const slurm::JobLimits& limits) {
  if (limits.preemption == slurm::PreemptMode::off) return "the job cannot be preempted";
  if (limits.preemption == slurm::PreemptMode::suspend) return "a preemption suspends the job";
  if (!limits.grace) return "what a preemption does is not known";
  return fmt::format("a preemption ({}) leaves {} s", slurm::name_of(limits.preemption), limits.grace->count());
}

Finding judge_limits(const SignalTrial& trial) {
  const std::string found =
      fmt::format("by {}: the job's end {}; {}", trial.scheduler.empty() ? "nobody" : trial.scheduler,
                  trial.limits.end ? "is known" : "is not known, or it has none", preemption_text(trial.limits));
  if (!trial.limits.end)
    return {"limits", Health::warn, found,
            "a run relies on the signal alone; if there is an end, set DISTDL_END_OF_JOB"};
  if (trial.may_requeue == false)
    return {"limits", Health::warn, found + "; it may not be requeued", "sbatch --requeue, or distdl submit --chain N"};
  return {"limits", Health::ok, found, ""};
}

void read_process(SignalTrial& trial, const std::filesystem::path& file) {
  std::istringstream name(file.filename().string());
  TrialProcess process;
  std::string pid;
  std::getline(name, process.part, '-');
  std::getline(name, pid, '-');
  std::getline(name, process.host);
  process.pid = std::atoi(pid.c_str());
  std::ifstream lines(file);
  for (TrialProcess::Event event; lines >> event.signal >> event.time;) process.events.push_back(event);
  trial.processes.push_back(std::move(process));
}
}  // namespace

const char* name_of(TrialStage stage) {
  switch (stage) {
    case TrialStage::tasks:
      return "tasks";
    case TrialStage::batch:
      return "batch";
    case TrialStage::srun:
      return "srun";
    case TrialStage::by_warning:
      return "warning";
  }
  return "?";
}

SignalTrial read_trial(const std::filesystem::path& folder) {
  SignalTrial trial;
  std::ifstream stages(folder / "stages");
  std::string name;
  for (double time = 0; stages >> name >> time;)
    for (const auto stage : kStages)
      if (name == name_of(stage)) trial.stages.push_back({stage, time});
  std::map<std::string, std::string> facts;
  std::ifstream lines(folder / "facts");
  for (std::string line; std::getline(lines, line);)
    if (const auto equals = line.find('='); equals != std::string::npos)
      facts[line.substr(0, equals)] = line.substr(equals + 1);
  trial.limits = slurm::limits_from([&](const std::string& key) {
    const auto found = facts.find(key);
    return found == facts.end() ? std::nullopt : std::optional(found->second);
  });
  trial.tasks = std::atoi(facts["tasks"].c_str());
  trial.job = facts["job"];
  trial.scheduler = facts["scheduler"];
  if (const auto& requeue = facts["may_requeue"]; !requeue.empty()) trial.may_requeue = requeue == "1";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "processes", error))
    read_process(trial, entry.path());
  std::sort(trial.processes.begin(), trial.processes.end(), [](const TrialProcess& a, const TrialProcess& b) {
    return std::tie(a.part, a.host, a.pid) < std::tie(b.part, b.host, b.pid);
  });
  return trial;
}

std::vector<Finding> judge(const SignalTrial& trial) {
  if (trial.stages.empty())
    return {{"trial", Health::fail, "no signal was sent: the tasks did not start", "the job's log says why"}};
  std::vector<Finding> findings;
  if (const auto from = time_of(trial, TrialStage::tasks)) findings.push_back(judge_preemption(trial, *from));
  if (const auto from = time_of(trial, TrialStage::batch)) findings.push_back(judge_batch(trial, *from));
  if (const auto from = time_of(trial, TrialStage::srun)) findings.push_back(judge_srun(trial, *from));
  if (const auto from = time_of(trial, TrialStage::by_warning)) findings.push_back(judge_warning(trial, *from));
  findings.push_back(judge_limits(trial));
  findings.push_back({"verdict", has_failed(findings) ? Health::fail : Health::ok,
                      has_failed(findings) ? "a signal does not reach the ranks here"
                                           : "distdl saves in time when this cluster ends a job",
                      ""});
  return findings;
}

std::string to_text(const SignalTrial& trial) {
  const double start = start_of(trial);
  std::string text;
  for (const auto& process : trial.processes) {
    text += fmt::format("{:<11}{:<10} pid {:<8}", process.part, printable(process.host), process.pid);
    for (const auto& event : process.events)
      text += fmt::format(" {} {:+.1f} s", printable(event.signal), event.time - start);
    text += process.events.empty() ? " no signal\n" : "\n";
  }
  return text;
}

nlohmann::ordered_json to_json(const SignalTrial& trial) {
  const double start = start_of(trial);
  auto processes = nlohmann::ordered_json::array();
  for (const auto& process : trial.processes) {
    auto events = nlohmann::ordered_json::array();
    for (const auto& event : process.events)
      events.push_back({{"signal", event.signal}, {"seconds", event.time - start}});
    processes.push_back({{"part", process.part}, {"host", process.host}, {"pid", process.pid}, {"signals", events}});
  }
  auto stages = nlohmann::ordered_json::array();
  for (const auto& stage : trial.stages)
    stages.push_back({{"stage", name_of(stage.stage)}, {"seconds", stage.time - start}});
  const auto findings = judge(trial);
  return {{"job", trial.job},
          {"works", !has_failed(findings)},
          {"findings", to_json(findings)},
          {"stages", stages},
          {"processes", processes}};
}

}  // namespace distdl::app
