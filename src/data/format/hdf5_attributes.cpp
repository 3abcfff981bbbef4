// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/data/format/hdf5_attributes.hpp>
#include <distdl/data/format/hdf5_failure.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kLongestText = 64 << 10;

std::string attribute_label(const char* name) {
  return fmt::format("attribute \"{}\"", name);
}

void put_attribute(hid_t object, const char* name, hid_t type, hid_t space, const void* data) {
  std::string label = attribute_label(name);
  hdf5::Attribute attribute(
      check(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), Access::writing, object, label));
  check(H5Awrite(attribute.get(), type, data), Access::writing, object, label);
}

void put_number(hid_t object, const char* name, hid_t type, const void* data) {
  hdf5::Space space(check(H5Screate(H5S_SCALAR), Access::writing, object, attribute_label(name)));
  put_attribute(object, name, type, space.get(), data);
}

hdf5::Attribute open_attribute(hid_t object, const char* name, H5T_class_t expected) {
  std::string label = attribute_label(name);
  hdf5::Attribute attribute(check(H5Aopen(object, name, H5P_DEFAULT), Access::reading, object, label));
  hdf5::Type type(check(H5Aget_type(attribute.get()), Access::reading, object, label));
  if (H5Tget_class(type.get()) != expected) reject(object, label, "has an unexpected type");
  return attribute;
}

hssize_t attribute_points(const hdf5::Attribute& attribute, hid_t object, const char* name) {
  hdf5::Space space(check(H5Aget_space(attribute.get()), Access::reading, object, attribute_label(name)));
  return check(H5Sget_simple_extent_npoints(space.get()), Access::reading, object, attribute_label(name));
}

void get_number(hid_t object, const char* name, H5T_class_t expected, hid_t memory_type, void* data) {
  hdf5::Attribute attribute = open_attribute(object, name, expected);
  if (attribute_points(attribute, object, name) != 1) reject(object, attribute_label(name), "is not a single number");
  check(H5Aread(attribute.get(), memory_type, data), Access::reading, object, attribute_label(name));
}

}  // namespace

void write_attribute(hid_t object, const char* name, std::string_view text) {
  hdf5::Lock lock;
  std::string padded(text);
  if (padded.empty()) padded.push_back('\0');  // HDF5 has no strings of length 0
  hdf5::Type type(check(H5Tcopy(H5T_C_S1), Access::writing, object, attribute_label(name)));
  check(H5Tset_size(type.get(), padded.size()), Access::writing, object, attribute_label(name));
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), Access::writing, object, attribute_label(name));
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), Access::writing, object, attribute_label(name));
  put_number(object, name, type.get(), padded.data());
}

void write_attribute(hid_t object, const char* name, std::int64_t number) {
  hdf5::Lock lock;
  put_number(object, name, H5T_STD_I64LE, &number);
}

void write_attribute(hid_t object, const char* name, float number) {
  hdf5::Lock lock;
  put_number(object, name, H5T_IEEE_F32LE, &number);
}

void write_attribute(hid_t object, const char* name, const tensor::Shape& shape) {
  hdf5::Lock lock;
  hsize_t count = shape.size();
  hdf5::Space space(check(H5Screate_simple(1, &count, nullptr), Access::writing, object, attribute_label(name)));
  put_attribute(object, name, H5T_STD_I64LE, space.get(), shape.data());
}

bool has_attribute(hid_t object, const char* name) {
  hdf5::Lock lock;
  return check(H5Aexists(object, name), Access::reading, object, attribute_label(name)) > 0;
}

std::string read_text(hid_t object, const char* name) {
  hdf5::Lock lock;
  std::string label = attribute_label(name);
  hdf5::Attribute attribute = open_attribute(object, name, H5T_STRING);
  hdf5::Type type(check(H5Aget_type(attribute.get()), Access::reading, object, label));
  if (H5Tis_variable_str(type.get()) != 0 || attribute_points(attribute, object, name) != 1)
    reject(object, label, "is not a single text of fixed length");
  const std::size_t bytes = H5Tget_size(type.get());
  if (bytes > kLongestText)
    reject(object, label, fmt::format("has {} bytes, but at most {} are expected", bytes, kLongestText));
  std::string text(bytes, '\0');
  check(H5Aread(attribute.get(), type.get(), text.data()), Access::reading, object, label);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

std::int64_t read_integer(hid_t object, const char* name) {
  hdf5::Lock lock;
  std::int64_t number = 0;
  get_number(object, name, H5T_INTEGER, H5T_NATIVE_INT64, &number);
  return number;
}

float read_real(hid_t object, const char* name) {
  hdf5::Lock lock;
  float number = 0;
  get_number(object, name, H5T_FLOAT, H5T_NATIVE_FLOAT, &number);
  return number;
}

tensor::Shape read_shape(hid_t object, const char* name) {
  hdf5::Lock lock;
  hdf5::Attribute attribute = open_attribute(object, name, H5T_INTEGER);
  hssize_t count = attribute_points(attribute, object, name);
  if (count > 8) reject(object, attribute_label(name), "has more than 8 extents");
  tensor::Shape shape(static_cast<std::size_t>(count));
  check(H5Aread(attribute.get(), H5T_NATIVE_INT64, shape.data()), Access::reading, object, attribute_label(name));
  return shape;
}

}  // namespace distdl::data
