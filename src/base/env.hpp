// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace distdl {

/// The value of an environment variable; nothing if it is unset or empty. The only way to read the environment:
/// what was read is remembered, so that a run can log everything that influenced it. Thread-safe.
std::optional<std::string> env(const std::string& name);

/// The same as a whole number. Throws ConfigError if the variable is set to something else.
std::optional<long long> env_integer(const std::string& name);

/// Parses a variable's value as env_integer() does.
long long integer_in(const std::string& name, const std::string& value);

/// Sets a variable that is not set, for libraries which take their settings from nowhere else. Thread-safe among the
/// functions of this header only: call it before other threads read the environment by themselves.
void set_env_default(const std::string& name, const std::string& value);

/// The environment of this process with these variables added or replaced, as "NAME=value", for a process to start.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables);

/// Every variable read so far, with its value.
std::map<std::string, std::optional<std::string>> env_read_so_far();

}  // namespace distdl
