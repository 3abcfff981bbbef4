// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/launch/progress.hpp>

namespace distdl::launch {
namespace {
/// Most launches in a row without progress that may each end at another step. After more, the run counts as the cause.
constexpr int kMostElsewhere = 120;

/// Newest committed step, or newest one below `below`, or -1. Throws StorageError.
std::int64_t newest_step(const std::filesystem::path& checkpoints, std::optional<Step> below = {}) {
  std::error_code error;  // what is there but cannot be read, list() reports
  if (!std::filesystem::exists(checkpoints, error) && !error) return -1;
  auto all = checkpoint::list(checkpoints);
  std::erase_if(all, [&](const checkpoint::Summary& one) { return below && one.step >= *below; });
  return all.empty() ? -1 : all.back().step.value;
}

/// As newest_step(), but returns `otherwise` if the file system fails: between launches that must not end a run.
std::int64_t newest_step_or(std::int64_t otherwise, const std::filesystem::path& checkpoints,
                            std::optional<Step> below = {}) try {
  return newest_step(checkpoints, below);
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
  return otherwise;
}
}  // namespace

Progress::Progress(const LaunchSpec& spec)
    : spec_(spec), checkpoint_(newest_step(spec.checkpoints)), starts_(starts().size()), last_done_(last_done()) {}

bool Progress::is_made() {
  const bool further = is_further();
  elsewhere_ = further ? 0 : elsewhere_ + 1;
  return breaks_off_elsewhere() || further;
}

LaunchSpec Progress::next_launch() const {
  LaunchSpec next = spec_;
  if (!is_begun_) next.worker.insert(next.worker.end(), next.at_first.begin(), next.at_first.end());
  if (below_ && !next.below.empty()) next.worker.insert(next.worker.end(), {next.below, fmt::format("{}", *below_)});
  return next;
}

std::string Progress::restart_summary() const {
  if (checkpoint_ < 0) return "there is no checkpoint yet";
  if (below_ && !spec_.below.empty())
    return fmt::format("{} from step {} have failed, so the next one starts from the checkpoint of step {}",
                       in_a_row_ >= 2 ? "two starts" : "two tries of one start", *below_,
                       newest_step_or(-1, spec_.checkpoints, below_));
  return fmt::format("the newest checkpoint is that of step {}", checkpoint_);
}

bool Progress::is_further() {
  const std::int64_t before = std::exchange(checkpoint_, newest_step_or(checkpoint_, spec_.checkpoints));
  bool made = checkpoint_ > before;
  const auto all = starts();
  for (; starts_ < all.size(); ++starts_) {
    made = made || (is_begun_ && all[starts_] > furthest_);
    furthest_ = std::max(furthest_, all[starts_]);
    in_a_row_ = all[starts_] == last_ ? in_a_row_ + 1 : 1;
    last_ = all[starts_];
    is_begun_ = true;
  }
  if (checkpoint_ > before) in_a_row_ = 0;
  if (made) below_.reset();
  const bool is_poisoned = last_ && spec_.is_poisoned && spec_.is_poisoned();
  if ((in_a_row_ >= 2 || is_poisoned) && newest_step_or(-1, spec_.checkpoints, last_) >= 0) below_ = last_;
  return made;
}

bool Progress::breaks_off_elsewhere() {
  const auto before = std::exchange(last_done_, last_done());
  return last_done_ != before && elsewhere_ <= kMostElsewhere;
}

}  // namespace distdl::launch
