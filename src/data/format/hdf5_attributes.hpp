// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <distdl/hdf5/objects/hdf5_handles.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::data {

void write_attribute(hid_t object, const char* name, std::string_view text);
void write_attribute(hid_t object, const char* name, std::int64_t number);
void write_attribute(hid_t object, const char* name, float number);
void write_attribute(hid_t object, const char* name, const tensor::Shape& shape);

bool has_attribute(hid_t object, const char* name);
std::string read_text(hid_t object, const char* name);
std::int64_t read_integer(hid_t object, const char* name);
float read_real(hid_t object, const char* name);
/// At most 8 extents.
tensor::Shape read_shape(hid_t object, const char* name);

}  // namespace distdl::data
