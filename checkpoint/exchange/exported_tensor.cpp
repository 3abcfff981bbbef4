// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/checkpoint/exchange/exported_tensor.hpp>
#include <distdl/checkpoint/format/tensor_pieces.hpp>
#include <distdl/tensor/half.hpp>

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
std::vector<std::byte> turned(std::span<const std::byte> whole, const TensorEntry& from) {
  const auto rows = static_cast<std::size_t>(from.shape[0]), columns = static_cast<std::size_t>(from.shape[1]);
  const std::size_t element = tensor::size_of(from.dtype);
  std::vector<std::byte> moved(whole.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      std::memcpy(&moved[(column * rows + row) * element], &whole[(row * columns + column) * element], element);
  return moved;
}

std::vector<std::byte> interleaved(std::span<const std::byte> whole, const ExportedTensor& tensor) {
  const auto rows = static_cast<std::size_t>(tensor.shape.front()), of = static_cast<std::size_t>(tensor.interleaved);
  const std::size_t bytes = whole.size() / rows;
  std::vector<std::byte> moved(whole.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / of * of, place = row % of;
    std::memcpy(&moved[row * bytes], &whole[(head + place % 2 * (of / 2) + place / 2) * bytes], bytes);
  }
  return moved;
}

/// Rounds floats in their place, and returns the beginning, which they then fill.
std::span<std::byte> rounded(std::span<std::byte> floats, tensor::DataType type) {
  return tensor::with_type(type, [&]<class Value>(Value) {
    const std::size_t count = floats.size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
      float wide = 0;
      std::memcpy(&wide, &floats[i * sizeof wide], sizeof wide);
      const Value narrow(wide);
      std::memcpy(&floats[i * sizeof narrow], &narrow, sizeof narrow);
    }
    return floats.first(count * sizeof(Value));
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
  for (const auto& tensor : tensors)
    all.push_back({tensor.name, tensor.rounded.value_or(tensor.from.dtype), tensor.shape});
  return all;
}

void for_each_piece(TensorReader& reader, const ExportedTensor& tensor,
                    const std::function<void(std::span<std::byte>)>& visit) {
  const auto visit_rounded = [&](std::span<std::byte> piece) {
    visit(tensor.rounded ? rounded(piece, *tensor.rounded) : piece);
  };
  if (!tensor.turned && tensor.interleaved == 0) return for_each_piece_of_rows(reader, tensor, visit_rounded);
  std::vector<std::byte> whole;
  for_each_piece_of_rows(reader, tensor,
                         [&](std::span<std::byte> piece) { whole.insert(whole.end(), piece.begin(), piece.end()); });
  auto moved = tensor.turned ? turned(whole, tensor.from) : interleaved(whole, tensor);
  visit_rounded(moved);
}

}  // namespace distdl::checkpoint
