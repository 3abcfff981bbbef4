// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <distdl/train/agreement.hpp>

namespace distdl::train {
namespace {
/// Empty if all went well, else "<exit code> <message>".
std::string outcome_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    return fmt::format("{} {}", static_cast<int>(exit_code_of(error)), error.what());
  }
}
}  // namespace

void agree(comm::Communicator& communicator, Clock::duration timeout, const std::function<void()>& work) {
  auto outcomes = communicator.all_gather_strings(outcome_of(work), timeout);
  auto failed = std::find_if(outcomes.begin(), outcomes.end(), [](const auto& text) { return !text.empty(); });
  if (failed == outcomes.end()) return;
  int code = static_cast<int>(ExitCode::internal);
  const char* message = std::from_chars(failed->data(), failed->data() + failed->size(), code).ptr + 1;
  auto good = std::count(outcomes.begin(), outcomes.end(), "");
  Rank rank(static_cast<int>(failed - outcomes.begin()));
  // A trouble of one node is found sooner when its name is given; one of all ranks is not about nodes.
  if (good == 0) throw Error(static_cast<ExitCode>(code), message);
  throw Error(static_cast<ExitCode>(code), fmt::format("rank {} ({}): {}; the problem does not occur on {} of {} ranks",
                                                       rank, communicator.host(rank), message, good, outcomes.size()));
}

}  // namespace distdl::train
