// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/health/failure_predictor.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/records/shares.hpp>

namespace distdl::observe {

/// How many times longer the slowest rank of a host takes for a microbatch than the median rank, by a row "shares" of
/// the journal; 1 if the row does not tell.
double slowdown_of(const records::SharesKnown& shares, const std::string& host);

/// Examples from the health files of the run in a folder. A node has failed if its rows end, or pause for minutes,
/// while the journal reports a loss: its rows of the half hour before are examples of a failure. All files may be
/// damaged.
std::vector<health::Example> read_examples(const std::filesystem::path& run_folder);

/// A predictor as JSON, with the names of the features.
std::string to_text(const health::FailurePredictor& predictor);
/// Reads the text of to_text(). Throws ConfigError that names the file if it is no such text, or has other features.
health::FailurePredictor read_predictor(const std::filesystem::path& file);

}  // namespace distdl::observe
