// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/hdf5/objects/hdf5_handles.hpp>

// The codecs of compress() as filters of HDF5.
namespace distdl::checkpoint {

/// Adds the filters of a codec to the creation properties of a dataset. HDF5 itself need not have them, because chunks
/// are written and read compressed.
void set_filters(hid_t creation, Codec codec);
/// The filter mask of a chunk that is stored without any filter.
std::uint32_t all_filters(Codec codec);
/// Whether a dataset has these filters and no others.
bool has_filters(hid_t creation, Codec codec);

}  // namespace distdl::checkpoint
