// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/format/tensor_reader.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {

/// A tensor of a checkpoint as another program is to find it.
struct ExportedTensor {
  TensorEntry from;       ///< in the checkpoint
  std::string name;       ///< in the file
  tensor::Shape shape{};  ///< in the file; of as many elements, unless these are some rows of `from`
  bool turned = false;    ///< `from` has two dimensions, and the file has the transposed
  std::int64_t first_row = 0;
  /// Above 0: of each so many rows, those of the first and of the second half alternate in the file. So Llama's first
  /// code and llama.cpp have the pairs of rotary positions, of each head.
  std::int64_t interleaved = 0;
  std::optional<tensor::DataType> rounded{};  ///< to this type of 16 bits; `from` is of float32
};

/// Returns tensors with their own names and shapes.
std::vector<ExportedTensor> as_they_are(const std::vector<TensorEntry>& tensors);
/// Returns the entries of a file of these tensors, in their order.
std::vector<TensorEntry> entries_of(const std::vector<ExportedTensor>& tensors);

/// Visits the pieces of a tensor as for the entry, in the order of the file. A tensor that is turned or interleaved is
/// in memory as a whole, twice.
void for_each_piece(TensorReader& reader, const ExportedTensor& tensor,
                    const std::function<void(std::span<std::byte>)>& visit);

}  // namespace distdl::checkpoint
