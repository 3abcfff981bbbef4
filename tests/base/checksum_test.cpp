// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/checksum.hpp>

namespace distdl {
namespace {
std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, AgreesWithRfc3720) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, ContinuesFromAPreviousPiece) {
  std::string_view text = "a text that is not a multiple of eight long";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(bytes(text.substr(cut)), crc32c(bytes(text.substr(0, cut)))), crc32c(bytes(text)));
}

/// Bit by bit, as RFC 3720 defines it.
std::uint32_t slow_crc32c(std::span<const std::byte> bytes) {
  std::uint32_t c = ~0u;
  for (std::byte byte : bytes) {
    c ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82F63B78u : 0);
  }
  return ~c;
}

TEST(Crc32c, IsRightForEveryLengthAndAlignmentAlsoWhileCopying) {
  std::vector<std::byte> data(40'000), space(data.size() + 256);
  auto aligned = (64 - reinterpret_cast<std::uintptr_t>(space.data()) % 64) % 64;
  auto copy = std::span(space).subspan(aligned);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  std::vector<std::size_t> sizes{4096, 16384, 16385, 32767};
  for (std::size_t n = 0; n < 600; ++n) sizes.push_back(n);
  for (std::size_t n : sizes)
    for (std::size_t shift : {0, 1, 7}) {
      auto piece = std::span<const std::byte>(data).subspan(shift, n);
      std::uint32_t expected = slow_crc32c(piece);
      ASSERT_EQ(crc32c(piece), expected) << n;
      ASSERT_EQ(crc32c(piece.subspan(n / 3), crc32c(piece.first(n / 3))), expected) << n;
      std::fill(copy.begin(), copy.end(), std::byte{0xA5});
      for (std::size_t to : {0, 3, 16, 64}) {
        ASSERT_EQ(copy_with_crc32c(copy.data() + to, piece), expected) << n;
        ASSERT_TRUE(std::equal(piece.begin(), piece.end(), copy.begin() + static_cast<std::ptrdiff_t>(to))) << n;
        ASSERT_EQ(copy[to + n], std::byte{0xA5}) << n;
        std::fill(copy.begin(), copy.end(), std::byte{0xA5});
      }
    }
}

TEST(Sha256, AgreesWithFips180) {
  Sha256 hash;
  hash.update(bytes("ab"));
  hash.update(bytes("c"));
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
}  // namespace
}  // namespace distdl
