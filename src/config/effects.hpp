// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <distdl/config/job.hpp>

namespace distdl::config {

/// The launch and the data of a job, as far as the caller knows them. An unknown part refuses no key.
struct Surroundings {
  std::string launch = {};  ///< "Slurm" or "--local"; empty: unknown
  std::string data = {};    ///< the kind of the training set, a name of data::kinds(); empty: unknown
};

/// Keys of a job that are set, to another value than their default, and have no effect for the same reason.
struct IgnoredKeys {
  std::vector<std::string> keys;
  std::string need;          ///< what gives them an effect: "parallel.strategy = \"local_sgd\""
  std::string here;          ///< what the job has instead: "parallel.strategy = \"replicas\""
  bool is_harmless = false;  ///< the run is the one that the job asks for, perhaps on another machine
};
std::vector<IgnoredKeys> ignored_keys(const Job& job, const Surroundings& surroundings = {});

/// Throws ConfigError if a key is set that has no effect, unless that is harmless, or the key is among `excused`.
/// Returns a warning for each reason that is no error.
std::vector<std::string> check_effects(const Job& job, const Surroundings& surroundings,
                                       const std::set<std::string>& excused = {});
/// The keys whose lack of an effect is no mistake: those of the file that have one until an override takes it away, and
/// all if the run has begun with them. `written`: the job of the file alone.
std::set<std::string> excused_keys(const Job& job, const Job& written, const std::filesystem::path& file,
                                   const std::set<std::string>& overridden);
/// check_effects() of what load() could not know without these surroundings; logs the warnings.
void check_surroundings(const Job& job, const Surroundings& surroundings);

/// Returns what gives a key an effect: "parallel.compression = \"topk\""; empty: nothing.
std::string need_of(const std::string& key);
/// Whether a key is for experts: usual jobs leave it out.
bool is_for_experts(const std::string& key);
/// All keys that have a row in the table of effects, those of the tables [[alert]] included, as often as they have one.
std::vector<std::string> keys_with_effects();

}  // namespace distdl::config
