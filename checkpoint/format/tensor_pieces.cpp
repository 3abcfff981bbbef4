// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/tensor_pieces.hpp>

namespace distdl::checkpoint {

void for_each_piece(TensorReader& reader, const TensorEntry& entry,
                    const std::function<void(std::span<std::byte>)>& visit) {
  constexpr std::int64_t kPieceBytes = 8 << 20;
  const StoredTensor* stored = reader.find(entry.name);
  require<InternalError>(stored, "tensor \"{}\" is no longer in the manifest", entry.name);
  auto element = static_cast<std::int64_t>(tensor::size_of(entry.dtype));
  std::vector<std::byte> piece;
  for_each_slab(entry.shape, kPieceBytes / element, [&](const tensor::Box& box) {
    piece.resize(static_cast<std::size_t>(tensor::element_count(box.extent) * element));
    reader.read(*stored, box, piece.data());
    visit(piece);
  });
}

}  // namespace distdl::checkpoint
