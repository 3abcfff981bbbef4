// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distdl {

/// The value of an environment variable. Returns nothing if it is unset or empty. This is the only way to read the
/// environment. All values read are recorded, so that a run can log everything that influenced it. Thread-safe.
std::optional<std::string> env(const std::string& name);

/// The value as a whole number. Throws ConfigError if it is something else.
std::optional<long long> env_integer(const std::string& name);

/// Parses a value as env_integer() does.
long long integer_in(const std::string& name, const std::string& value);

/// Sets a variable that is not set, for libraries that can be configured only by the environment. Thread-safe only with
/// respect to the functions of this header: call it before other threads read the environment themselves.
void set_env_default(const std::string& name, const std::string& value);

/// This process's environment, and these variables, for a new process; without Slurm's (slurm_variables.hpp), and
/// without what set_env_default() has set for the libraries of this process.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables);

}  // namespace distdl
