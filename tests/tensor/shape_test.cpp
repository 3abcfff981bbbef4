// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::tensor {
namespace {
TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({2, 0}), 0);
  EXPECT_EQ(to_string({64, 1, 28, 28}), "(64, 1, 28, 28)");
}

TEST(Shape, RefusesNonsense) {
  EXPECT_THROW(element_count({-1}), ConfigError);
  EXPECT_THROW(element_count({INT64_MAX, 2}), ConfigError);
  EXPECT_THROW(element_count({std::int64_t{1} << 60}), ConfigError) << "its bytes would be no number";
}

TEST(DataType, NamesRoundTrip) {
  for (DataType type :
       {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16, DataType::int32, DataType::int64,
        DataType::byte, DataType::int8, DataType::int16, DataType::boolean, DataType::complex64, DataType::complex128})
    EXPECT_EQ(data_type_from_code(code_of(type)), type);
  EXPECT_EQ(size_of(DataType::complex128), 16u);
  EXPECT_EQ(parts_of(DataType::complex64).bytes(), size_of(DataType::complex64));
  EXPECT_FALSE(is_floating(DataType::complex64));
  EXPECT_THROW(data_type_from_code("float"), ConfigError);
}
}  // namespace
}  // namespace distdl::tensor
