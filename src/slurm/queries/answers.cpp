// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include <distdl/base/clock.hpp>
#include <distdl/slurm/duration.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/fields.hpp>

namespace distdl::slurm {
namespace {
constexpr std::int64_t kLongestJob = 100LL * 365 * 86400;  ///< in seconds

/// The number after "node=" in "cpu=2,mem=8G,node=2,billing=2".
std::optional<int> nodes_in(const std::string& resources) {
  const auto at = ("," + resources).find(",node=");
  if (at == std::string::npos) return std::nullopt;
  const auto count = number_at<int>(std::string_view(resources).substr(at + std::string_view("node=").size()));
  return count && *count > 0 ? count : std::nullopt;
}

/// Reads a mode such as "REQUEUE", "GANG,SUSPEND"; "WITHIN" is for jobs of one QOS.
PreemptMode mode_in(const std::string& text) {
  for (const auto mode : {PreemptMode::suspend, PreemptMode::requeue, PreemptMode::cancel, PreemptMode::off})
    if (("," + text + ",").find(fmt::format(",{},", name_of(mode))) != std::string::npos) return mode;
  return PreemptMode::unknown;
}

Seconds seconds_or(const Fields& fields, const char* key, Seconds otherwise) {
  return duration_in(fields.text(key)).value_or(otherwise);
}

/// The GPUs in "gres:gpu:a100:8", "gres/gpu:8" or "gpu:8", which releases write differently: "a100:8", "8".
std::string gpus_in(const std::string& resources) {
  std::string gpus;
  std::istringstream parts(resources);
  for (std::string part; std::getline(parts, part, ',');) {
    for (const std::string_view begin : {"gres:", "gres/"})
      if (part.starts_with(begin)) part.erase(0, begin.size());
    constexpr std::string_view kGpu = "gpu:";
    if (!part.starts_with(kGpu)) continue;
    if (!gpus.empty()) gpus += ',';
    gpus += part.substr(kGpu.size());
  }
  return gpus;
}

void read_resources(const Fields& fields, JobRecord& job) {
  job.tasks = std::max(0, fields.number("NumTasks", 0));
  job.tasks_per_node = std::max(0, fields.number("NtasksPerN:B:S:C", 0));
  job.cpus_per_task = std::max<std::int64_t>(0, fields.number<std::int64_t>("CPUs/Task", 0));
  job.gpus = gpus_in(fields.text("TresPerJob"));
  job.node_list = fields.text("NodeList");
  job.excluded_nodes = fields.text("ExcNodeList");
  job.batch_host = fields.text("BatchHost");
  job.nodes = std::max(0, fields.number("NumNodes", 0));
  job.fewest_nodes = nodes_in(fields.text("ReqTRES"));
  if (!job.fewest_nodes && job.is_pending() && job.nodes > 0) job.fewest_nodes = job.nodes;  // of "2-3" the 2
}

void read_times(const Fields& fields, JobRecord& job) {
  job.submitted = time_in(fields.text("SubmitTime"));
  job.started = time_in(fields.text("StartTime"));
  job.preempted = time_in(fields.text("PreemptTime"));
  job.time_limit = duration_in(fields.text("TimeLimit"));
  // EndTime of a job without a limit is a year ahead.
  const bool has_end = job.time_limit || (job.is_inactive() && !job.is_pending());
  if (has_end) job.ends = time_in(fields.text("EndTime"));
}

JobRecord job_from(const Fields& fields) {
  JobRecord job;
  job.id = fields.text("JobId");
  if (!fields.text("ArrayTaskId").empty())
    job.array_task = fmt::format("{}_{}", fields.text("ArrayJobId"), fields.text("ArrayTaskId"));
  if (!fields.text("HetJobId").empty())
    job.component = fmt::format("{}+{}", fields.text("HetJobId"), fields.number("HetJobOffset", 0));
  job.name = fields.text("JobName");
  job.user = fields.text("UserId");
  if (const auto number = job.user.find('('); number != std::string::npos)
    job.user_id = number_at<std::int64_t>(std::string_view(job.user).substr(number + 1));
  job.user = job.user.substr(0, job.user.find('('));
  job.state = fields.text("JobState");
  job.reason = fields.text("Reason");
  job.restarts = fields.number<std::int64_t>("Restarts", 0);
  job.may_requeue = fields.number("Requeue", 0) != 0;
  job.is_batch = fields.number("BatchFlag", 0) != 0;
  const std::string exit = fields.text("ExitCode");
  job.exit_code = number_at<int>(exit).value_or(0);
  job.signal = exit.find(':') == std::string::npos ? 0 : number_at<int>(exit.substr(exit.find(':') + 1)).value_or(0);
  job.partition = fields.text("Partition");
  job.qos = fields.text("QOS");
  job.account = fields.text("Account");
  job.dependency = fields.text("Dependency");
  job.command = fields.text("Command");
  job.work_folder = fields.text("WorkDir");
  job.output = fields.text("StdOut");
  job.comment = fields.text("Comment");
  read_resources(fields, job);
  read_times(fields, job);
  return job;
}

}  // namespace

std::optional<JobRecord> job_in(const std::string& text, const std::string& id) {
  std::optional<JobRecord> first;
  for (const Fields& fields : records_in(text, "JobId")) {
    if (fields.text("JobState").empty()) continue;
    const std::string task = fields.text("ArrayJobId") + "_" + fields.text("ArrayTaskId");
    if (fields.text("JobId") == id || task == id) return job_from(fields);
    if (!first) first = job_from(fields);
  }
  return first;
}

std::optional<Partition> partition_in(const std::string& text, const std::string& name) {
  for (const Fields& fields : records_in(text, "PartitionName")) {
    if (fields.text("PartitionName") != name) continue;
    Partition partition;
    partition.name = name;
    partition.preempt_mode = mode_in(fields.text("PreemptMode"));
    partition.grace = Seconds(std::clamp<std::int64_t>(fields.number<std::int64_t>("GraceTime", 0), 0, kLongestJob));
    partition.longest = duration_in(fields.text("MaxTime"));
    partition.priority_tier = fields.number("PriorityTier", 0);
    partition.state = fields.text("State");
    return partition;
  }
  return std::nullopt;
}

Settings settings_in(const std::string& text) {
  const Fields fields = settings_fields_in(text);
  Settings settings;
  settings.version = fields.text("SLURM_VERSION");
  settings.cluster = fields.text("ClusterName");
  settings.kill_wait = seconds_or(fields, "KillWait", settings.kill_wait);
  settings.slurmd_timeout = seconds_or(fields, "SlurmdTimeout", settings.slurmd_timeout);
  settings.message_timeout = seconds_or(fields, "MessageTimeout", settings.message_timeout);
  settings.slurmd_port = fields.number("SlurmdPort", settings.slurmd_port);
  const std::string authentication = "," + fields.text("AuthInfo");
  constexpr std::string_view kExpire = ",cred_expire=";
  if (const auto at = authentication.find(kExpire); at != std::string::npos)
    if (const auto life = number_at<int>(std::string_view(authentication).substr(at + kExpire.size())); life > 0)
      settings.credential_life = Seconds(*life);
  settings.preempt_type = fields.text("PreemptType");
  settings.preempt_mode = mode_in(fields.text("PreemptMode"));
  // The first until 23.02, then the second.
  const std::string names = "," + fields.text("SlurmctldParameters") + "," + fields.text("PreemptParameters") + ",";
  settings.sends_user_signal = names.find(",preempt_send_user_signal,") != std::string::npos ||
                               names.find(",send_user_signal,") != std::string::npos;
  settings.requeues = fields.number("JobRequeue", 0) != 0;
  return settings;
}

std::optional<int> fewest_nodes_in(const std::string& text, const std::string& job) {
  constexpr std::string_view kJob = "\"job_id\"", kResources = "\"tres_req_str\"";
  for (auto at = text.find(kJob); at != std::string::npos;) {
    const auto next = text.find(kJob, at + 1);
    const auto number = text.find_first_not_of(": ", at + kJob.size());
    const auto end = text.find_first_not_of("0123456789", number);
    if (number < end && end != std::string::npos && text.substr(number, end - number) == job) {
      const std::string record = text.substr(end, next == std::string::npos ? next : next - end);
      const auto key = record.find(kResources);
      const auto begin = key == std::string::npos ? key : record.find('"', key + kResources.size());
      const auto last = begin == std::string::npos ? begin : record.find('"', begin + 1);
      return last == std::string::npos ? std::nullopt : nodes_in(record.substr(begin + 1, last - begin - 1));
    }
    at = next;
  }
  return std::nullopt;
}

std::optional<Time> time_in(const std::string& text) {
  const std::string_view digits = std::string_view(text).substr(text.starts_with('@') ? 1 : 0);
  if (!digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos)
    return time_from(number_at<std::int64_t>(digits).value_or(0));
  std::tm parts{};
  parts.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || *end) return std::nullopt;
  std::time_t time = std::mktime(&parts);
  return time_from(time);  // -1 is not a time: taken for one, it would end the run at its first step
}

std::optional<Time> time_from(std::int64_t seconds) {
  if (seconds <= 0 || seconds >= whole_seconds_since_1970() + kLongestJob) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
}

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

}  // namespace distdl::slurm
