// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/checkpoint/store.hpp>

namespace distdl::checkpoint {

/// A contiguous dataset whose bytes are written later, without HDF5.
struct PlannedDataset {
  std::string path;  ///< "/t/parameter/conv1.weight/0"
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;  ///< of the whole tensor; kept as an attribute, like the box's offset
  tensor::Box box;      ///< its extent is the dataset's; not empty
};

/// Creates an HDF5 file (there must be none) with room for these datasets and with /state/<key>, and closes it.
/// Returns where in the file each dataset's bytes belong. Throws StorageError naming file and dataset.
/// Safe to call from several threads.
std::vector<std::uint64_t> create_skeleton(const std::filesystem::path& file, Step step,
                                           const std::vector<PlannedDataset>& datasets, const State& state);

}  // namespace distdl::checkpoint
