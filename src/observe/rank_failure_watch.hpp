// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/observe/event_follower.hpp>

namespace distdl::observe {

/// Whether a rank of a run's newest launch has reported an error. Each call reads what the journal has got since the
/// one before.
class RankFailureWatch {
 public:
  explicit RankFailureWatch(const std::filesystem::path& run_folder);
  bool has_failed();

 private:
  LineFollower journal_;
  bool has_failed_ = false;
};

}  // namespace distdl::observe
