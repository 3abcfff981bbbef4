// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <distdl/agent/options.hpp>
#include <distdl/comm/options.hpp>
#include <distdl/config/renamed_keys.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/observe/alert_rules.hpp>
#include <distdl/observe/options.hpp>
#include <distdl/program/options.hpp>
#include <distdl/submit/options.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::config {

/// A whole job file: the Options of all libraries.
struct Job {
  std::string run_dir = "run";
  std::int64_t devices_per_rank = 1;
  launch::Options launch;
  agent::Options agent;
  program::Options program;
  submit::Options submit;
  train::Recipe recipe;
  comm::Options comm;
  observe::Options observe;
  std::vector<observe::AlertRule> alerts;  ///< the tables [[alert]], in the order of the file
  std::vector<std::string> warnings;       ///< warnings about its origin, see log_warnings()
};

/// Calls visit(key, field, help) for every key of a job file. It is the only table of keys, and is used for files,
/// --set, --defaults and docs.
template <class Visitor>
void describe(Job& job, Visitor&& visit) {
  visit("run.dir", job.run_dir, "folder of the run for checkpoints, logs, metrics and result; all nodes must see it");
  visit("run.devices_per_rank", job.devices_per_rank,
        "parts of a rank's processors, each of which computes some of its microbatches, with kernels.threads threads: "
        "no bit depends on it; docs/devices.md");
  describe(job.launch, visit);
  describe(job.agent, visit);
  describe(job.program, visit);
  describe(job.submit, visit);
  describe(job.recipe.data, visit);
  describe(job.recipe.model, visit);
  describe(job.recipe.train, visit);
  describe(job.recipe.parallel, visit);
  describe(job.recipe.optim, visit);
  describe(job.recipe.kernels, visit);
  describe(job.recipe.checkpoint, visit);
  describe(job.comm, visit);
  describe(job.observe, visit);
}

/// Reads a TOML job file (none if `file` is empty) and applies `overrides` ("train.epochs=3") on top. Relative paths in
/// it mean the current folder. Throws ConfigError naming file, line and key; an unknown key comes with the nearest
/// known one, and one that has no effect is refused as check_effects() says. What it returns has passed check(). A key
/// may have its former name, and Job::warnings says so.
Job load(const std::filesystem::path& file, const std::vector<std::string>& overrides,
         const std::vector<RenamedKey>& renamed = renamed_keys());
/// For whoever has loaded a job, once its log is open.
void log_warnings(const Job& job);

/// The override that makes `program` the command of a job. Throws ConfigError for words that TOML cannot hold: they
/// must be UTF-8.
std::string override_for(const std::vector<std::string>& program);

/// Checks a job as far as that is possible without its data set. Throws ConfigError.
void check(const Job& job);

/// Overrides alone, on top of `job`. Throws ConfigError.
void apply(Job& job, const std::vector<std::string>& overrides,
           const std::vector<RenamedKey>& renamed = renamed_keys());

/// Keys and their values as TOML.
using Values = std::map<std::string, std::string>;
/// The values of all keys that --set takes.
Values values_of(const Job& job);
/// Those of a table [[alert]]: "alert.when", ..
Values values_of(const observe::AlertRule& rule);

/// The names of all keys that --set takes, in the order of the reference; those of the tables [[alert]] are not among
/// them.
std::vector<std::string> keys();
/// A complete job file with the default of every key, and its help as a comment.
std::string defaults_as_toml();
/// Writes the keys with the values of `job` and without comments, for logs and checkpoints.
std::string to_toml(const Job& job);
/// The reference page with one table row per key, and the keys for experts in a table of their own.
std::string reference_as_markdown();

}  // namespace distdl::config
