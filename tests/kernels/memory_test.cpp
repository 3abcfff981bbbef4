// SPDX-License-Identifier: Apache-2.0
#include <span>

#include <gtest/gtest.h>

#include "tests/kernels/each_backend.hpp"

namespace distdl::kernels::test {
namespace {
class ReservedMemory : public EachBackend {
 protected:
  static constexpr std::size_t kPage = std::size_t{2} << 20;  ///< the largest of any backend, in bytes

  std::span<std::byte> bytes(std::size_t first, std::size_t end) const {
    return memory_.as<std::byte>().subspan(first, end - first);
  }
  void write(std::size_t place, int value) {
    backend_->copy_from_host(static_cast<std::byte*>(memory_.data()) + place, &value, sizeof value);
  }
  int read(std::size_t place) {
    int value = -1;
    backend_->copy_to_host(&value, static_cast<std::byte*>(memory_.data()) + place, sizeof value);
    return value;
  }
  tensor::Buffer memory_;
};

TEST_P(ReservedMemory, ComesAndGoesPageByPage) {
  memory_ = backend_->reserve(5 * kPage + 64);
  backend_->commit(bytes(0, 64));
  backend_->commit(bytes(kPage + 64, 4 * kPage));
  EXPECT_EQ(read(0), 0);
  EXPECT_EQ(read(4 * kPage - 4), 0);
  for (const std::size_t place : {std::size_t{0}, kPage + 64, 2 * kPage, 4 * kPage - 4}) write(place, 7);
  backend_->commit(bytes(0, 4 * kPage));
  EXPECT_EQ(read(kPage + 64), 7) << "what was there stays";
  backend_->discard(bytes(2 * kPage, 4 * kPage));
  EXPECT_EQ(read(0), 7);
  EXPECT_EQ(read(kPage + 64), 7);
  backend_->commit(bytes(2 * kPage, 5 * kPage + 64));
  EXPECT_EQ(read(2 * kPage), 0);
  EXPECT_EQ(read(4 * kPage - 4), 0);
  write(5 * kPage + 60, 8);
  EXPECT_EQ(read(5 * kPage + 60), 8);
  backend_->commit({});
  backend_->discard({});
}

DISTDL_ON_EACH_BACKEND(ReservedMemory);
}  // namespace
}  // namespace distdl::kernels::test
