// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <distdl/checkpoint/commit/collector.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

/// The folder, the ranks and the owner of a save.
struct SaveContext {
  FileSystem& files;
  const std::filesystem::path& root;
  const Options& options;
  const Owner& owner;
  Group& group;
  Collector& collector;
};

/// Collective. Does the work of Store::save up to the commit point. Returns the bytes of the checkpoint's files.
std::uint64_t save_step(const SaveContext& context, Step step, std::span<const Slice> slices, const State& state);
/// Like save_step(). If the disk becomes full or the quota is exceeded during the save, which free_bytes() cannot
/// predict, older checkpoints are deleted and the save is tried again.
std::uint64_t save_with_room(const SaveContext& context, Step step, std::span<const Slice> slices, const State& state);

}  // namespace distdl::checkpoint
