// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/base/program_path.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/environment.hpp>
#include <distdl/slurm/queries/answers.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kQueryLimit = 10s;
constexpr int kTimedOut = 124, kNotStarted = -1;

/// scontrol prints times as seconds since 1970: local time without a zone has hours that come twice a year.
CommandResult ask_scontrol(const std::vector<std::string>& words) {
  std::vector<std::string> command{"scontrol"};
  command.insert(command.end(), words.begin(), words.end());
  return ask(command, kQueryLimit, {}, {}, {{"SLURM_TIME_FORMAT", "%s"}});
}

bool says_one_of(const CommandResult& result, const std::vector<std::string>& texts) {
  return std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
    return result.errors.find(text) != std::string::npos || result.output.find(text) != std::string::npos;
  });
}

/// Returns the output of scontrol; nothing if it fails and says one of `unknown`.
std::optional<std::string> show(const std::vector<std::string>& words, const std::string& about,
                                const std::vector<std::string>& unknown) {
  auto result = ask_scontrol(words);
  if (result.exit_code == 0) return std::move(result.output);
  if (says_one_of(result, unknown)) return std::nullopt;
  throw SchedulerError(fmt::format("cannot ask Slurm about {}: \"scontrol {} {}\" {}", about, words[0], words[1],
                                   cause_of(result, kQueryLimit)));
}
}  // namespace

CommandResult ask(const std::vector<std::string>& command, Milliseconds limit, Milliseconds grace,
                  const std::optional<std::string>& input, const std::map<std::string, std::string>& variables) try {
  auto all = variables;
  all.merge(variables_for_commands());
  return run_command(command, limit, grace, input, all);
} catch (const Error& error) {
  return {kNotStarted, "", error.what()};
}

std::string cause_of(const CommandResult& result, Milliseconds limit) {
  constexpr int kNoProgram = 127;
  if (result.exit_code == kNotStarted) return "was not started: " + result.errors;
  if (result.exit_code == kNoProgram && result.errors.empty()) return "is not on PATH";
  if (result.exit_code == kTimedOut)
    return fmt::format("did not answer within {} s", std::chrono::duration_cast<std::chrono::seconds>(limit).count());
  std::string text = result.errors.empty() ? result.output : result.errors;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ';');
  return text.empty() ? fmt::format("ended with code {}", result.exit_code) : fmt::format("says \"{}\"", text);
}

bool has_scontrol() {
  return is_on_path("scontrol");
}

void check_job_id(const std::string& id) {
  constexpr std::size_t kLongest = 32;
  const auto end = id.find_first_not_of("0123456789");
  const bool is_id = !id.empty() && id.size() <= kLongest && end != 0 &&
                     (end == std::string::npos || ((id[end] == '_' || id[end] == '+') && end + 1 < id.size() &&
                                                   id.find_first_not_of("0123456789", end + 1) == std::string::npos));
  require<SchedulerError>(is_id, "\"{}\" is no job id of Slurm: expected a number, or \"12_3\" for a task of an array",
                          id);
}

std::optional<JobRecord> Commands::job(const std::string& id) {
  const auto text = show({"show", "job", id}, "job " + id, {"Invalid job id"});
  if (!text) return std::nullopt;
  auto record = job_in(*text, id);
  require<SchedulerError>(record.has_value(), "\"scontrol show job {}\" tells no JobState: \"{}\"", id, *text);
  return record;
}

std::optional<Partition> Commands::partition(const std::string& name) {
  const auto text = show({"show", "partition", name}, fmt::format("partition \"{}\"", name), {"not found"});
  return text ? partition_in(*text, name) : std::nullopt;
}

Settings Commands::settings() {
  return settings_in(*show({"show", "config"}, "its settings", {}));
}

std::optional<std::string> Commands::batch_script(const std::string& id) {
  auto text = show({"write", "batch_script", id, "-"}, "the script of job " + id,
                   {"Invalid job id", "Batch script", "batch script", "has not yet", "Access/permission denied"});
  if (!text || text->empty()) return std::nullopt;
  return text;
}

std::optional<std::string> Commands::release_if_usable() {
  const auto result = ask({"scontrol", "--version"}, kQueryLimit);
  if (result.exit_code != 0 || ask_scontrol({"show", "config"}).exit_code != 0) return std::nullopt;
  const auto begin = result.output.find_first_of("0123456789");  // "slurm 22.05.8", "slurm-wlm 22.05.8"
  if (begin == std::string::npos) return std::nullopt;
  const auto dot = result.output.find('.', begin);
  if (dot == std::string::npos) return std::nullopt;
  return result.output.substr(begin, result.output.find_first_not_of("0123456789", dot + 1) - begin);
}

}  // namespace distdl::slurm
