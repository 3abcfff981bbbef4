// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/hdf5/objects/hdf5_handles.hpp>

// How HDF5 calls what compress() does.
namespace distdl::checkpoint {

/// Adds the filters of a codec to a dataset that is to be created. HDF5 itself may lack them: its chunks come and go
/// compressed.
void set_filters(hid_t creation, Codec codec);
/// The mask of a chunk that passed none of them.
std::uint32_t all_filters(Codec codec);
/// Whether a dataset has these filters and no others.
bool has_filters(hid_t creation, Codec codec);

}  // namespace distdl::checkpoint
