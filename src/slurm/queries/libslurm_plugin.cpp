// SPDX-License-Identifier: Apache-2.0
// The one file compiled against libslurm; built as a shared object of its own (see plugin_interface.hpp). libslurm's
// own printers are used, which scontrol calls too; times, which they print without a zone, are added in seconds since
// 1970.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include <distdl/slurm/queries/plugin_interface.hpp>

namespace {
using distdl::slurm::Answer;

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
  const int error = slurm_get_errno();
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

void print_job(std::FILE* out, job_info_t& job) {
  slurm_print_job_info(out, &job, 0);
  const auto print_time = [out](const char* key, time_t time) {
    std::fprintf(out, "   %s=@%lld\n", key, static_cast<long long>(time));
  };
  print_time("SubmitTime", job.submit_time);
  print_time("StartTime", job.start_time);
  print_time("EndTime", job.end_time);
  print_time("PreemptTime", job.preempt_time);
  if (job.tres_req_str) std::fprintf(out, "   ReqTRES=%s\n", job.tres_req_str);
}

/// Of an array there may be several: that of the task, else that of the number, else, as scontrol, all.
Answer print_jobs(std::FILE* out, const char* name) {
  char* rest = nullptr;
  const auto whole = std::strtoull(name, &rest, 10);
  if (whole >= NO_VAL) return Answer::unknown;
  const auto number = static_cast<std::uint32_t>(whole);
  const bool is_task = *rest == '_';
  const auto task = is_task ? static_cast<std::uint32_t>(std::strtoul(rest + 1, nullptr, 10)) : NO_VAL;
  job_info_msg_t* message = nullptr;
  if (slurm_load_job(&message, number, SHOW_ALL) != SLURM_SUCCESS || !message) return failure(out);
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
  slurm_free_ctl_conf(config);
  return Answer::found;
}

Answer print_script(std::FILE* out, const char* name) {
  const auto number = static_cast<std::uint32_t>(std::strtoul(name, nullptr, 10));
  return slurm_job_batch_script(out, number) == SLURM_SUCCESS ? Answer::found : failure(out);
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
