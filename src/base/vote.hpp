// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/exit_codes.hpp>

// The vote of a rank tells the others the result of its part of a collective operation, or why it failed. Votes are
// texts, which the caller gathers, so that all ranks go on, or all throw.
namespace distdl {

std::string vote_for(const std::string& result);
std::string vote_against(ExitCode code, const std::string& message);
/// Does `work` and votes for its result, or against with what it throws. `code`: of an exception that is no Error.
std::string vote_on(const std::function<std::string()>& work, ExitCode code = ExitCode::internal);

struct FailedVote {
  std::size_t rank = 0;   ///< the first rank that failed
  std::size_t count = 0;  ///< ranks that failed
  ExitCode code = ExitCode::internal;
  std::string message;
};

/// Nothing if no rank failed. `votes`: in the order of ranks.
std::optional<FailedVote> failure_of(const std::vector<std::string>& votes);
/// In the order of ranks; only if none failed.
std::vector<std::string> results_of(std::vector<std::string> votes);

}  // namespace distdl
