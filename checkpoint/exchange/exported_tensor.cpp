// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/checkpoint/exchange/exported_tensor.hpp>
#include <distdl/checkpoint/format/tensor_pieces.hpp>

namespace distdl::checkpoint {
namespace {
void for_each_piece_of_rows(TensorReader& reader, const ExportedTensor& tensor,
                            const std::function<void(std::span<std::byte>)>& visit) {
  const auto count = static_cast<std::size_t>(tensor::element_count(tensor.shape));
  if (count == 0) return;
  const auto row = tensor.shape.empty() ? 0 : count / static_cast<std::size_t>(tensor.shape.front());
  const std::size_t element = tensor::size_of(tensor.from.dtype);
  const std::size_t begin = static_cast<std::size_t>(tensor.first_row) * row * element, end = begin + count * element;
  std::size_t at = 0;
  for_each_piece(reader, tensor.from, [&](std::span<std::byte> piece) {
    const auto first = std::clamp(begin, at, at + piece.size()), last = std::clamp(end, at, at + piece.size());
    if (first < last) visit(piece.subspan(first - at, last - first));
    at += piece.size();
  });
}
}  // namespace

std::vector<ExportedTensor> as_they_are(const std::vector<TensorEntry>& tensors) {
  std::vector<ExportedTensor> all;
  all.reserve(tensors.size());
  for (const auto& entry : tensors) all.push_back({entry, entry.name, entry.shape});
  return all;
}

std::vector<TensorEntry> entries_of(const std::vector<ExportedTensor>& tensors) {
  std::vector<TensorEntry> all;
  all.reserve(tensors.size());
  for (const auto& tensor : tensors) all.push_back({tensor.name, tensor.from.dtype, tensor.shape});
  return all;
}

void for_each_piece(TensorReader& reader, const ExportedTensor& tensor,
                    const std::function<void(std::span<std::byte>)>& visit) {
  if (!tensor.turned) return for_each_piece_of_rows(reader, tensor, visit);
  std::vector<std::byte> whole, turned;
  for_each_piece(reader, tensor.from,
                 [&](std::span<std::byte> piece) { whole.insert(whole.end(), piece.begin(), piece.end()); });
  turned.resize(whole.size());
  const auto rows = static_cast<std::size_t>(tensor.from.shape[0]),
             columns = static_cast<std::size_t>(tensor.from.shape[1]), element = tensor::size_of(tensor.from.dtype);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      std::memcpy(&turned[(column * rows + row) * element], &whole[(row * columns + column) * element], element);
  visit(turned);
}

}  // namespace distdl::checkpoint
