// SPDX-License-Identifier: Apache-2.0
// The one file compiled against libslurm; built as a shared object of its own (see plugin_interface.hpp). It prints
// jobs as scontrol does, as far as answers.cpp reads them: libslurm has no printer of jobs since 24.05. Times, which
// scontrol prints without a zone, are in seconds since 1970.
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <pwd.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <sys/wait.h>

#include <distdl/slurm/queries/plugin_interface.hpp>

// libslurm exports these, and no header has them. The second is the third's name until 23.02.
extern "C" {
const char* slurm_job_state_string(std::uint32_t state);
[[gnu::weak]] const char* slurm_job_reason_string(std::uint32_t reason);
[[gnu::weak]] const char* slurm_job_state_reason_string(std::uint32_t reason);
}

namespace {
using distdl::slurm::Answer;

// Slurm 26.05 takes a structure for the number of a job, and has another name for what frees a configuration.
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
constexpr auto* kFreeConfig = &slurm_free_conf;
slurm_step_id_t whole_job(std::uint32_t number) {
  slurm_step_id_t job = {};
  job.job_id = number;
  job.step_het_comp = NO_VAL;
  job.step_id = NO_VAL;
  return job;
}
#else
constexpr auto* kFreeConfig = &slurm_free_ctl_conf;
std::uint32_t whole_job(std::uint32_t number) {
  return number;
}
#endif

/// A text that is written like a file. The owner of `text` frees it.
class Text {
 public:
  explicit Text(char** text) : file_(::open_memstream(text, &size_)) {}
  ~Text() {
    if (file_) std::fclose(file_);
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  std::FILE* file() const { return file_; }

 private:
  std::size_t size_ = 0;
  std::FILE* file_;
};

Answer failure(std::FILE* out) {
  const int error = errno;
  std::fprintf(out, "%s", slurm_strerror(error));
  switch (error) {
    case ESLURM_INVALID_JOB_ID:
    case ESLURM_INVALID_PARTITION_NAME:
    case ESLURM_JOB_SCRIPT_MISSING:
    case ESLURM_ACCESS_DENIED:
      return Answer::unknown;
    default:
      return Answer::failed;
  }
}

std::string user_name(std::uint32_t id) {
  std::vector<char> memory(16384);
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(id, &entry, memory.data(), memory.size(), &found) == 0 && found) return found->pw_name;
  return std::to_string(id);
}

std::string reason_of(const job_info_t& job) {
  if (job.state_desc) {
    std::string words = job.state_desc;
    for (char& c : words)
      if (std::strchr(" \t\n\r\v\f", c)) c = '_';
    return words;
  }
  if (slurm_job_state_reason_string) return slurm_job_state_reason_string(job.state_reason);
  return slurm_job_reason_string ? slurm_job_reason_string(job.state_reason) : std::to_string(job.state_reason);
}

/// Texts that hold spaces have a line of their own; what is behind a line's end is nobody's key.
void print_line(std::FILE* out, const char* key, const char* text) {
  if (!text) text = "(null)";
  std::fprintf(out, "%s=%.*s\n   ", key, static_cast<int>(std::strcspn(text, "\n")), text);
}
void print_word(std::FILE* out, const char* key, const char* text) {
  std::fprintf(out, "%s=%s\n   ", key, text ? text : "(null)");
}
void print_number(std::FILE* out, const char* key, std::uint32_t number, bool is_told = true) {
  std::fprintf(out, is_told ? "%s=%" PRIu32 "\n   " : "%s=N/A\n   ", key, number);
}
void print_time(std::FILE* out, const char* key, time_t time) {
  std::fprintf(out, "%s=@%lld\n   ", key, static_cast<long long>(time));
}

void print_identity(std::FILE* out, job_info_t& job) {
  std::fprintf(out, "JobId=%" PRIu32 " ", job.job_id);
  if (job.array_job_id != 0) {
    const bool is_group = job.array_task_id == NO_VAL && job.array_task_str;
    const std::string task = is_group ? job.array_task_str : std::to_string(job.array_task_id);
    std::fprintf(out, "ArrayJobId=%" PRIu32 " ArrayTaskId=%s ", job.array_job_id, task.c_str());
  } else if (job.het_job_id != 0) {
    std::fprintf(out, "HetJobId=%" PRIu32 " HetJobOffset=%" PRIu32 " ", job.het_job_id, job.het_job_offset);
  }
  print_line(out, "JobName", job.name);
  print_line(out, "Command", job.command);
  print_line(out, "WorkDir", job.work_dir);
  print_line(out, "Comment", job.comment);
  if (job.batch_flag != 0) {
    std::vector<char> output(4096);
    slurm_get_job_stdout(output.data(), static_cast<int>(output.size()), &job);
    print_line(out, "StdOut", output.data());
  }
  std::fprintf(out, "UserId=%s(%" PRIu32 ")\n   ", user_name(job.user_id).c_str(), job.user_id);
  print_word(out, "Account", job.account);
  print_word(out, "QOS", job.qos);
}

void print_state(std::FILE* out, const job_info_t& job) {
  print_word(out, "JobState", slurm_job_state_string(job.job_state));
  print_word(out, "Reason", reason_of(job).c_str());
  print_word(out, "Dependency", job.dependency);
  print_number(out, "Requeue", job.requeue);
  print_number(out, "Restarts", job.restart_cnt);
  print_number(out, "BatchFlag", job.batch_flag);
  const int exit = static_cast<int>(job.exit_code);
  std::fprintf(out, "ExitCode=%d:%d\n   ", WIFEXITED(exit) ? WEXITSTATUS(exit) : 0,
               WIFSIGNALED(exit) ? WTERMSIG(exit) : 0);
  const bool has_limit = job.time_limit != NO_VAL && job.time_limit != INFINITE;
  print_word(out, "TimeLimit", has_limit ? (std::to_string(job.time_limit) + ":00").c_str() : "UNLIMITED");
  print_time(out, "SubmitTime", job.submit_time);
  print_time(out, "StartTime", job.start_time);
  print_time(out, "EndTime", job.end_time);
  print_time(out, "PreemptTime", job.preempt_time);
}

void print_resources(std::FILE* out, const job_info_t& job) {
  print_word(out, "Partition", job.partition);
  print_word(out, "ExcNodeList", job.exc_nodes);
  print_word(out, "NodeList", job.nodes);
  if (job.batch_host) print_word(out, "BatchHost", job.batch_host);
  const bool waits = (job.job_state & JOB_STATE_BASE) == JOB_PENDING;
  const bool is_capped = waits && job.max_nodes != 0 && job.max_nodes < job.num_nodes;
  print_number(out, "NumNodes", is_capped ? job.max_nodes : job.num_nodes);
  print_number(out, "NumTasks", job.num_tasks, job.num_tasks != NO_VAL);
  print_number(out, "CPUs/Task", job.cpus_per_task, job.cpus_per_task != NO_VAL16);
  print_number(out, "NtasksPerN:B:S:C", job.ntasks_per_node, job.ntasks_per_node != NO_VAL16);
  if (job.tres_per_job) print_word(out, "TresPerJob", job.tres_per_job);
  if (job.tres_req_str) print_word(out, "ReqTRES", job.tres_req_str);
}

/// Prints texts of users first: the later one of two keys counts.
void print_job(std::FILE* out, job_info_t& job) {
  print_identity(out, job);
  print_state(out, job);
  print_resources(out, job);
  std::fputc('\n', out);
}

/// Prints one of several records of an array: that of the task, else that of the number, else, as scontrol, all.
Answer print_jobs(std::FILE* out, const char* name) {
  char* rest = nullptr;
  const auto whole = std::strtoull(name, &rest, 10);
  if (whole >= NO_VAL) return Answer::unknown;
  const auto number = static_cast<std::uint32_t>(whole);
  const bool is_task = *rest == '_';
  const auto task = is_task ? static_cast<std::uint32_t>(std::strtoul(rest + 1, nullptr, 10)) : NO_VAL;
  job_info_msg_t* message = nullptr;
  if (slurm_load_job(&message, whole_job(number), SHOW_ALL) != SLURM_SUCCESS || !message) return failure(out);
  const std::unique_ptr<job_info_msg_t, decltype(&slurm_free_job_info_msg)> owner(message, &slurm_free_job_info_msg);
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    job_info_t& job = message->job_array[i];
    const bool is_it = is_task ? job.array_job_id == number && job.array_task_id == task : job.job_id == number;
    if (!is_it) continue;
    print_job(out, job);
    return Answer::found;
  }
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    job_info_t& job = message->job_array[i];
    if (is_task && job.array_task_id == NO_VAL) job.array_task_id = task;  // one of those that wait together
    print_job(out, job);
  }
  return message->record_count > 0 ? Answer::found : Answer::unknown;
}

Answer print_partition(std::FILE* out, const char* name) {
  partition_info_msg_t* message = nullptr;
  if (slurm_load_partitions(0, &message, SHOW_ALL) != SLURM_SUCCESS || !message) return failure(out);
  const std::unique_ptr<partition_info_msg_t, decltype(&slurm_free_partition_info_msg)> owner(
      message, &slurm_free_partition_info_msg);
  for (std::uint32_t i = 0; i < message->record_count; ++i) {
    partition_info_t& partition = message->partition_array[i];
    if (!partition.name || std::strcmp(partition.name, name) != 0) continue;
    slurm_print_partition_info(out, &partition, 0);
    return Answer::found;
  }
  return Answer::unknown;
}

Answer print_config(std::FILE* out) {
  slurm_conf_t* config = nullptr;
  if (slurm_load_ctl_conf(0, &config) != SLURM_SUCCESS || !config) return failure(out);
  slurm_print_ctl_conf(out, config);
  kFreeConfig(config);
  return Answer::found;
}

Answer print_script(std::FILE* out, const char* name) {
  const auto number = static_cast<std::uint32_t>(std::strtoul(name, nullptr, 10));
  return slurm_job_batch_script(out, whole_job(number)) == SLURM_SUCCESS ? Answer::found : failure(out);
}

Answer print(std::FILE* out, const char* kind, const char* name) {
  if (std::strcmp(kind, "job") == 0) return print_jobs(out, name);
  if (std::strcmp(kind, "partition") == 0) return print_partition(out, name);
  if (std::strcmp(kind, "config") == 0) return print_config(out);
  if (std::strcmp(kind, "script") == 0) return print_script(out, name);
  return Answer::failed;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) const char* distdl_slurm_release() {
  static char text[16];
  std::snprintf(text, sizeof text, "%d.%02d", static_cast<int>(SLURM_VERSION_NUMBER >> 16 & 0xFF),
                static_cast<int>(SLURM_VERSION_NUMBER >> 8 & 0xFF));
  return text;
}

extern "C" __attribute__((visibility("default"))) int distdl_slurm_answer(const char* kind, const char* name,
                                                                          char** text) {
  static const bool initialized = [] {
    slurm_init(nullptr);
    return true;
  }();
  static_cast<void>(initialized);
  const Text out(text);
  if (!out.file()) return static_cast<int>(Answer::failed);
  return static_cast<int>(print(out.file(), kind, name));
}
