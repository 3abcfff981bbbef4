// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include <distdl/checkpoint/summary.hpp>

namespace distdl::observe {

/// Records of TensorBoard with the histogram of each parameter in a checkpoint. Every block that is read is verified.
/// Throws StorageError (corrupt, incomplete). Empty after a request to stop.
std::string parameter_histograms(const checkpoint::Summary& checkpoint, const std::stop_token& stop = {});

/// Bytes of parameters that parameter_histograms() reads.
std::uint64_t parameter_bytes(const checkpoint::Summary& checkpoint);

}  // namespace distdl::observe
