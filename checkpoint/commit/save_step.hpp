// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <distdl/checkpoint/commit/collector.hpp>
#include <distdl/checkpoint/file_system.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>

namespace distdl::checkpoint {

/// Where and with whom a run saves.
struct SaveContext {
  FileSystem& files;
  const std::filesystem::path& root;
  const Options& options;
  const Owner& owner;
  Group& group;
  Collector& collector;
};

/// Collective: Store::save up to the commit point. Returns the bytes of the checkpoint's files.
std::uint64_t save_step(const SaveContext& context, Step step, std::span<const Slice> slices, const State& state);
/// The same; but where the disk turns out to be full in the midst of it, or the quota is used up, which no look at the
/// free room shows, older checkpoints go and it is tried once more.
std::uint64_t save_with_room(const SaveContext& context, Step step, std::span<const Slice> slices, const State& state);

}  // namespace distdl::checkpoint
