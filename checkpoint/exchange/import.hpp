// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {

/// Makes a committed checkpoint of whole tensors in this process's memory. The folder is created if it is missing.
/// `take` allows a folder that a run has owned; a run that is still active must then stop. Throws UsageError if the
/// folder has an owner, or has a checkpoint that a restart would prefer; StorageError as Store::save does.
Summary save_imported(const std::filesystem::path& root, Step step, std::span<const Slice> slices, const State& state,
                      bool take);

struct ImportOptions {
  std::optional<Step> step{};  ///< step of the checkpoint; empty: that of the file, or 0
  /// Prefix of names that begin with neither parameter/ nor the name of an optimizer's state.
  std::string prefix = "parameter/";
  bool weights_only = false;  ///< ignore the optimizer's state and the saved state, and use step 0
  bool take = false;          ///< allow a folder that a run has owned; an active run must then stop
};

/// Makes a committed checkpoint of a safetensors file. The folder is created if it is missing. The file is mapped, not
/// loaded, and must not change during the call. Names that begin with "parameter/" or with the name of an optimizer's
/// state, such as "momentum/", are kept; others get the prefix. The state comes from metadata that export_safetensors()
/// wrote. Throws as save_imported() does, and StorageError (corrupt, incompatible) if the file is invalid.
Summary import_safetensors(const std::filesystem::path& file, const std::filesystem::path& root,
                           const ImportOptions& options);

}  // namespace distdl::checkpoint
