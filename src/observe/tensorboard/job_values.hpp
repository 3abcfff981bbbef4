// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace distdl::observe {

/// A value as job.toml of a run folder has it: a number, a text, true or false, a list. What is no JSON is a text.
nlohmann::json json_of(const std::string& toml);

/// The keys that decide what is trained, and how: those of the sections data, kernels, model, optim, parallel, train.
std::map<std::string, std::string> hyperparameters(const std::map<std::string, std::string>& keys);

}  // namespace distdl::observe
