// SPDX-License-Identifier: Apache-2.0
#include <string_view>

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

TEST(Sha256, AgreesWithFips180) {
  Sha256 hash;
  hash.update(bytes("ab"));
  hash.update(bytes("c"));
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
}  // namespace
}  // namespace distdl
