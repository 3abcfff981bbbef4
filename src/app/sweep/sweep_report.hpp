// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/sweep/sweep_plan.hpp>

namespace distdl::app {

/// A table for people: run, state, steps, best value, keys; the best run first. Below it sweep_line().
std::string to_text(const Sweep& sweep, const std::vector<SweptRun>& runs);
nlohmann::ordered_json to_json(const Sweep& sweep, const std::vector<SweptRun>& runs);
/// "sweep in sweep-mlp: 12 of 20 runs have ended, 1 failed; best: 0007, loss 0.1234, optim.learning_rate=0.1".
std::string sweep_line(const Sweep& sweep, const std::vector<SweptRun>& runs);

}  // namespace distdl::app
