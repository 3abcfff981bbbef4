// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <distdl/checkpoint/summary.hpp>
#include <distdl/files/file_operations.hpp>

// The layout of https://huggingface.co/docs/safetensors: eight bytes with the length of the header, the header in JSON,
// and the tensors without gaps.
namespace distdl::checkpoint {

/// The first bytes of a file whose tensors follow in this order. Their number is a multiple of 8.
std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata);

struct SafetensorsTensor {
  TensorEntry entry;
  std::uint64_t offset = 0;  ///< from the start of the file
};
struct SafetensorsFile {
  std::vector<SafetensorsTensor> tensors;                   ///< in the order of their bytes
  std::vector<std::pair<std::string, std::string>> others;  ///< name and type of those that checkpoints cannot hold
  std::map<std::string, std::string> metadata;
};
/// Reads and checks the header: each tensor has the size of its shape, and the tensors fill the file exactly. Throws
/// StorageError: corrupt, or incompatible if the file is known to be something else.
SafetensorsFile read_safetensors(OpenFile& file);
/// Throws StorageError (incompatible) if the file has tensors of types that checkpoints do not support.
void require_known_types(const SafetensorsFile& content, const Path& file);

}  // namespace distdl::checkpoint
