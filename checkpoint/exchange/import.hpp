// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {

/// Makes a committed checkpoint of whole tensors in this process's memory, in a folder that is created if it is
/// missing. `take`: though a run has owned the folder; if it still runs, it must stop. Throws UsageError if the folder
/// has been owned by a run, or has a checkpoint that a restart would rather take; StorageError as Store::save does.
Summary save_imported(const std::filesystem::path& root, Step step, std::span<const Slice> slices, const State& state,
                      bool take);

struct ImportOptions {
  std::optional<Step> step{};         ///< of the checkpoint that is made; none: the file's own, or 0
  std::string prefix = "parameter/";  ///< goes before each name that does not begin with one of a training's own
  bool weights_only = false;          ///< leave out optimizer and state, and count from step 0
  bool take = false;                  ///< though a run has owned the folder: if it still runs, it must stop
};

/// Makes a committed checkpoint of a safetensors file, in a folder that is created if it is missing. The file is
/// mapped, not loaded, and must not change meanwhile. Names that begin with "parameter/" or as the optimizers' state
/// does
/// ("momentum/") stay, others get the prefix; state comes from the metadata that export_safetensors writes. Throws as
/// save_imported() does; StorageError corrupt or incompatible if the file is none.
Summary import_safetensors(const std::filesystem::path& file, const std::filesystem::path& root,
                           const ImportOptions& options);

}  // namespace distdl::checkpoint
