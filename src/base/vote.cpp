// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/vote.hpp>

namespace distdl {
namespace {
// "y<result>" or "n<exit code> <message>".
bool has_failed(const std::string& vote) {
  return !vote.starts_with('y');
}
}  // namespace

std::string vote_for(const std::string& result) {
  return "y" + result;
}

std::string vote_against(ExitCode code, const std::string& message) {
  return fmt::format("n{} {}", static_cast<int>(code), message);
}

std::string vote_on(const std::function<std::string()>& work, ExitCode code) {
  try {
    return vote_for(work());
  } catch (const Error& error) {
    return vote_against(error.exit_code(), error.what());
  } catch (const std::exception& error) {
    const ExitCode own = exit_code_of(error);
    return vote_against(own == ExitCode::internal ? code : own, message_of(error));
  }
}

std::optional<FailedVote> failure_of(const std::vector<std::string>& votes) {
  const auto first = std::find_if(votes.begin(), votes.end(), has_failed);
  if (first == votes.end()) return std::nullopt;
  FailedVote failed;
  failed.rank = static_cast<std::size_t>(first - votes.begin());
  failed.count = static_cast<std::size_t>(std::count_if(first, votes.end(), has_failed));
  const std::size_t blank = std::min(first->find(' '), first->size());
  int code = static_cast<int>(failed.code);
  std::from_chars(first->data() + std::min<std::size_t>(1, blank), first->data() + blank, code);
  failed.code = static_cast<ExitCode>(code);
  failed.message = first->substr(std::min(blank + 1, first->size()));
  return failed;
}

std::vector<std::string> results_of(std::vector<std::string> votes) {
  for (std::string& vote : votes) vote.erase(0, 1);
  return votes;
}

}  // namespace distdl
