// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/compression/codec.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::parallel {

/// Returns the codec of units that are not exact. kExact where an encoding has no format.
compression::Codec codec_of(const CompressionOptions& options);

/// True if a tensor has units that are not exact. Short tensors cost little, and are those on which a network depends
/// most: biases, and factors of norms.
bool is_coded(const Options& options, const tensor::TensorView& view);

/// Elements of an arena that are encoded together, at most compression::kMostElements.
struct CodedUnit {
  std::size_t first = 0, count = 0;
  bool is_exact = false;  ///< they are sent as they are
};

/// The units of those elements of a tensor that are in `within`.
std::vector<CodedUnit> units_of(const Options& options, const tensor::TensorView& view, const optim::Elements& within);

/// The seconds that it takes to encode so many elements and to decode them twice, as measured here with some of them.
double measure_codec(const compression::Codec& codec, std::size_t elements);

}  // namespace distdl::parallel
