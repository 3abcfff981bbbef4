// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/comm/options.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/observe/options.hpp>
#include <distdl/submit/options.hpp>
#include <distdl/train/run.hpp>

namespace distdl::config {

/// A whole job file: everyone's Options.
struct Job {
  std::string run_dir = "run";
  launch::Options launch;
  submit::Options submit;
  train::Recipe recipe;
  comm::Options comm;
  observe::Options observe;
};

/// Calls visit(key, field, help) for every key of a job file. The one table behind files, --set, --defaults and docs.
template <class Visitor>
void describe(Job& job, Visitor&& visit) {
  visit("run.dir", job.run_dir, "folder of the run: checkpoints, logs, metrics, result; seen by all nodes");
  describe(job.launch, visit);
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

/// Reads a TOML job file and applies `overrides` ("train.epochs=3") on top. Relative paths in it mean the current
/// folder. Throws ConfigError naming file, line and key; an unknown key comes with the nearest known one. What it
/// returns has passed check().
Job load(const std::filesystem::path& file, const std::vector<std::string>& overrides);

/// All that can be found wrong with a job without its data set; the same for whoever loads one. Throws ConfigError.
void check(const Job& job);

/// Overrides alone, on top of `job`. Throws ConfigError.
void apply(Job& job, const std::vector<std::string>& overrides);

/// A complete job file with every key at its default and its help as a comment.
std::string defaults_as_toml();
/// The same keys with the values of `job`, without comments: for logs and checkpoints.
std::string to_toml(const Job& job);
/// The reference page: one table row per key.
std::string reference_as_markdown();

}  // namespace distdl::config
