// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/base/regular_file.hpp>
#include <distdl/checkpoint/exchange/exported_tensor.hpp>
#include <distdl/checkpoint/exchange/gguf_metadata.hpp>
#include <distdl/checkpoint/exchange/onnx_graph.hpp>
#include <distdl/checkpoint/summary.hpp>

// Writes checkpoints in the formats of other programs. Tensors are read in pieces of some mebibytes, and the checksum
// of each block is verified. A file appears only when it is complete.
namespace distdl::checkpoint {

/// Shell patterns for names of tensors, in which '*' also stands for '/'; none: all tensors.
using Patterns = std::vector<std::string>;
bool matches(const std::string& pattern, const std::string& name);

/// The tensors whose names match one of the patterns. Throws UsageError that names a pattern without a match.
std::vector<TensorEntry> select(const Summary& checkpoint, const Patterns& patterns);

/// Writes the layout of https://huggingface.co/docs/safetensors. Tensors are sorted by descending element size, so that
/// each one is aligned. The state becomes metadata: "distdl.step", and "distdl.state.<key>" if it is text. Returns the
/// tensors written, as they are in the file. Throws UsageError, StorageError.
std::vector<TensorEntry> export_safetensors(const Summary& checkpoint, const std::filesystem::path& file,
                                            std::vector<ExportedTensor> tensors, Overwrite overwrite);

enum class Compression { none, deflate };
/// Writes a file for numpy.load: a zip archive of <name>.npy. bf16, which numpy does not have, is converted to f32
/// without loss.
std::vector<TensorEntry> export_npz(const Summary& checkpoint, const std::filesystem::path& file,
                                    const std::vector<ExportedTensor>& tensors, Compression compression,
                                    Overwrite overwrite);

/// The limit of Protocol Buffers, in bytes.
inline constexpr std::uint64_t kMostOfOnnx = (std::uint64_t{1} << 31) - 1;
/// Writes an ONNX model. If it would be larger than `most_bytes`, the weights are in a second file, FILE.data, which
/// the first one names.
std::vector<TensorEntry> export_onnx(const Summary& checkpoint, const std::filesystem::path& file,
                                     const OnnxGraph& graph, Overwrite overwrite,
                                     std::uint64_t most_bytes = kMostOfOnnx);

/// Writes a GGUF file, as llama.cpp reads it. Throws UsageError for a tensor of a type that GGUF does not have.
std::vector<TensorEntry> export_gguf(const Summary& checkpoint, const std::filesystem::path& file,
                                     const GgufMetadata& metadata, const std::vector<ExportedTensor>& tensors,
                                     Overwrite overwrite);

/// Writes an HDF5 file with one dataset /t/<name> per tensor. The elements stay in the checkpoint's own files, as
/// virtual datasets. These files are named relative to the view, so both can be moved together. Scalars, /state/<key>
/// and compressed tensors are copied. Checksums are not verified when data are read through the view.
std::vector<TensorEntry> export_view(const Summary& checkpoint, const std::filesystem::path& file,
                                     const Patterns& patterns, Overwrite overwrite);

}  // namespace distdl::checkpoint
