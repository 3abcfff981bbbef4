// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <distdl/checkpoint/summary.hpp>

namespace distdl::observe {

/// Records of TensorBoard with the histogram of each parameter in a checkpoint. Every block that is read is verified.
/// Throws StorageError (corrupt, incomplete).
std::string parameter_histograms(const checkpoint::Summary& checkpoint);

/// Of the parameters, that it reads.
std::uint64_t parameter_bytes(const checkpoint::Summary& checkpoint);

}  // namespace distdl::observe
