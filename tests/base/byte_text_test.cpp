// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/byte_text.hpp>

namespace distdl {
namespace {

TEST(ByteText, IsInPowersOfTwo) {
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(9486072), "9.0 MiB");
  EXPECT_EQ(bytes_text(412.0 * (1 << 20)), "412 MiB");
  EXPECT_EQ(bytes_text(3e15), "2728 TiB") << "of the largest unit there may be many";
}

}  // namespace
}  // namespace distdl
