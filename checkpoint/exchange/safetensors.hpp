// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
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
  std::vector<SafetensorsTensor> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};
/// Reads and checks the header: each tensor has the size of its shape, and the tensors fill the file exactly. Throws
/// StorageError: corrupt, or incompatible if a tensor has a type that checkpoints do not support.
SafetensorsFile read_safetensors(OpenFile& file);

}  // namespace distdl::checkpoint
