// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/capi/distdl.h>
#include <distdl/world/world.hpp>

namespace distdl::capi {

/// Ranks that tell each other their addresses by a function of the caller.
class CallersWorld final : public world::World {
 public:
  CallersWorld(distdl_exchange exchange, void* context, Rank rank, int size)
      : exchange_(exchange), context_(context), rank_(rank), size_(size) {}
  Rank rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return "the caller's exchange"; }
  /// The caller's function has its own limit of time.
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override;

 private:
  std::string exchanged(const std::string& mine) const;

  distdl_exchange exchange_;
  void* context_;
  Rank rank_;
  int size_;
};

}  // namespace distdl::capi
