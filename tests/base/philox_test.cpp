// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>

namespace distdl {
namespace {
// Known answers of the authors' Random123 library (kat_vectors, philox4x32 10).
TEST(Philox, AgreesWithRandom123) {
  EXPECT_EQ(Philox::block(0, 0, 0), (Philox::Block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(Philox::block(~0ull, ~0ull, ~0ull), (Philox::Block{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(Philox::block(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
            (Philox::Block{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(Philox::uniform(0), 0.0f);
  EXPECT_LT(Philox::uniform(~0u), 1.0f);
}
}  // namespace
}  // namespace distdl
