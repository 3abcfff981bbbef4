// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include <distdl/checkpoint/commit/finite.hpp>

namespace distdl::checkpoint {
namespace {

/// Whether all bits of the exponent are set: then the number is infinite or none.
template <class Word, Word exponent>
Word is_odd(const std::byte* place) {
  Word word;
  std::memcpy(&word, place, sizeof word);
  return static_cast<Word>((word & exponent) == exponent);
}

/// Inner loops of a fixed length and without branches, so that the compiler uses vectors.
template <class Word, Word exponent>
bool none_has(std::span<const std::byte> bytes) {
  constexpr std::size_t kRun = 256;
  Word found = 0;
  std::size_t at = 0;
  for (; at + kRun <= bytes.size(); at += kRun)
    for (std::size_t i = 0; i < kRun; i += sizeof(Word)) found |= is_odd<Word, exponent>(bytes.data() + at + i);
  for (; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) found |= is_odd<Word, exponent>(bytes.data() + at);
  return found == 0;
}
}  // namespace

bool all_finite(tensor::DataType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case tensor::DataType::float32:
      return none_has<std::uint32_t, 0x7F800000u>(bytes);
    case tensor::DataType::float64:
      return none_has<std::uint64_t, 0x7FF0000000000000u>(bytes);
    case tensor::DataType::float16:
      return none_has<std::uint16_t, 0x7C00u>(bytes);
    case tensor::DataType::bfloat16:
      return none_has<std::uint16_t, 0x7F80u>(bytes);
    case tensor::DataType::complex64:
    case tensor::DataType::complex128:
      return all_finite(tensor::parts_of(dtype).type, bytes);
    default:
      return true;
  }
}

}  // namespace distdl::checkpoint
