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

/// A contiguous dataset whose bytes are written later, without HDF5; or one of chunks, in one dimension, which HDF5 can
/// read if it has the filters of the codec.
struct PlannedDataset {
  std::string path;  ///< "/t/parameter/conv1.weight/0"
  tensor::DataType dtype = tensor::DataType::float32;
  tensor::Shape shape;  ///< of the whole tensor; kept as an attribute, like the box's offset
  tensor::Box box;      ///< its extent is the contiguous dataset's; not empty
  Codec codec = Codec::none;
  std::vector<std::span<const std::byte>> chunks = {};  ///< as compress() made them; none: contiguous
};

/// Creates an HDF5 file (there must be none) with room for these datasets, their chunks and with /state/<key>, and
/// closes it. Returns for each dataset where in the file its bytes belong, or where its chunks lie. Throws StorageError
/// naming file and dataset. Safe to call from several threads.
std::vector<std::vector<std::uint64_t>> create_skeleton(const std::filesystem::path& file, Step step,
                                                        const std::vector<PlannedDataset>& datasets,
                                                        const State& state);

}  // namespace distdl::checkpoint
