// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/checkpoint/slice.hpp>

namespace distdl::checkpoint {

/// A dataset whose bytes are written later without HDF5. It is contiguous, or one-dimensional with chunks that HDF5 can
/// read if it has the filters of the codec.
struct PlannedDataset {
  std::string path;  ///< "/t/parameter/conv1.weight/0"
  tensor::DataType dtype = tensor::DataType::float32;
  tensor::Shape shape;  ///< shape of the whole tensor; stored as an attribute, like the offset of the box
  tensor::Box box;      ///< its extent is that of the contiguous dataset; not empty
  Codec codec = Codec::none;
  std::vector<std::span<const std::byte>> chunks = {};  ///< the results of compress(); empty: contiguous
};

/// Creates an HDF5 file, which must not exist, with space for these datasets, their chunks and /state/<key>, and closes
/// it. Returns for each dataset the file offset of its bytes, or of each of its chunks. Throws StorageError that names
/// file and dataset. Safe to call from several threads.
std::vector<std::vector<std::uint64_t>> create_skeleton(const std::filesystem::path& file, Step step,
                                                        const std::vector<PlannedDataset>& datasets,
                                                        const State& state);

}  // namespace distdl::checkpoint
