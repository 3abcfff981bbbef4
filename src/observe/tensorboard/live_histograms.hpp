// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <stop_token>
#include <string>
#include <thread>

#include <distdl/base/clock.hpp>

namespace distdl::observe {

/// Reads checkpoints of a run that goes on, in a thread of low priority, for histograms of its parameters. Nothing here
/// throws because of what is read.
class LiveHistograms {
 public:
  /// `checkpoints`: the folder that has them. `every`: one of so many is read, the first one first; 0: none.
  LiveHistograms(std::filesystem::path checkpoints, std::int64_t every)
      : folder_(std::move(checkpoints)), every_(every) {}
  /// Gives up what is still read. A file system that does not answer is waited for for a second only.
  ~LiveHistograms();
  LiveHistograms(const LiveHistograms&) = delete;
  LiveHistograms& operator=(const LiveHistograms&) = delete;

  /// A checkpoint has been saved. It is passed over while an earlier one is still read.
  void saved();
  /// Records of TensorBoard that have been made since the last call, or that come within this time.
  std::string take(Clock::duration wait = {});

 private:
  std::filesystem::path folder_;
  std::int64_t every_, count_ = 0;
  std::stop_source stop_;
  std::future<std::string> records_;
  std::thread thread_;
};

}  // namespace distdl::observe
