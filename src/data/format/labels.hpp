// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/data/format/chunk_reader.hpp>

namespace distdl::data {

/// All of a dataset of 4-byte integers. Throws StorageError (corrupt).
std::vector<std::int32_t> read_integers(ChunkReader& chunks);

/// All labels. Throws StorageError (corrupt), also for a label that is no class.
std::vector<std::int32_t> read_labels(ChunkReader& chunks, const std::string& file, std::int64_t classes);

}  // namespace distdl::data
