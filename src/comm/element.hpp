// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <distdl/tensor/element.hpp>

namespace distdl::comm {

using tensor::DataType;
using tensor::is_floating;
using tensor::Reduction;
using tensor::size_of;

/// The name in tools and errors, such as "float32" or "sum".
std::string_view name_of(DataType type);
std::string_view name_of(Reduction reduction);
/// Throws ConfigError that lists the possible names.
DataType data_type_of(std::string_view name);
/// Throws ConfigError for impossible combinations: an average of integers, any reduction of bytes.
void check_reduction(DataType type, Reduction reduction);

}  // namespace distdl::comm
