// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/base/regular_file.hpp>
#include <distdl/checkpoint/summary.hpp>

// Checkpoints in the formats of other programs. Tensors are read in pieces of some mebibytes, each block against its
// checksum; a file appears whole or not at all.
namespace distdl::checkpoint {

/// Shell patterns for names of tensors, in which '*' also stands for '/'; none: all tensors.
using Patterns = std::vector<std::string>;
bool matches(const std::string& pattern, const std::string& name);

/// The tensors whose names match one of the patterns. Throws UsageError naming a pattern that matches none.
std::vector<TensorEntry> select(const Summary& checkpoint, const Patterns& patterns);

/// The layout of https://huggingface.co/docs/safetensors: tensors in descending size of their elements, so that each is
/// aligned to it, and the state as metadata: "distdl.step", "distdl.state.<key>" where it is text.
/// Returns the tensors written. Throws UsageError, StorageError.
std::vector<TensorEntry> export_safetensors(const Summary& checkpoint, const std::filesystem::path& file,
                                            const Patterns& patterns, Overwrite overwrite);

enum class Compression { none, deflate };
/// What numpy.load opens: a zip archive of <name>.npy. bf16, which numpy does not know, becomes f32, which holds the
/// same values.
std::vector<TensorEntry> export_npz(const Summary& checkpoint, const std::filesystem::path& file,
                                    const Patterns& patterns, Compression compression, Overwrite overwrite);

/// An HDF5 file with each tensor as one dataset /t/<name>, whose elements stay in the checkpoint's own files (a virtual
/// dataset), named relative to the view: moved together they stay together. Scalars, /state/<key> and tensors that are
/// compressed there are copied.
/// Nothing checks what is read through it.
std::vector<TensorEntry> export_view(const Summary& checkpoint, const std::filesystem::path& file,
                                     const Patterns& patterns, Overwrite overwrite);

}  // namespace distdl::checkpoint
