// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/hdf5_elements.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::checkpoint {
namespace {
using hdf5::check;
using hdf5::Space;
using hdf5::Type;

Type floating(std::size_t bytes, std::size_t exponent, std::size_t mantissa, std::size_t bias) {
  Type type(check(H5Tcopy(H5T_IEEE_F32LE), "create a type for", "floats"));
  std::size_t sign = exponent + mantissa;
  check(H5Tset_fields(type.get(), sign, mantissa, exponent, 0, mantissa), "create a type for", "floats");
  check(H5Tset_size(type.get(), bytes), "create a type for", "floats");
  check(H5Tset_ebias(type.get(), bias), "make a type for", "floats");
  return type;
}

/// As h5py has them.
Type boolean() {
  Type type(check(H5Tenum_create(H5T_STD_I8LE), "create a type for", "booleans"));
  for (const auto& [name, value] : {std::pair("FALSE", std::int8_t{0}), std::pair("TRUE", std::int8_t{1})})
    check(H5Tenum_insert(type.get(), name, &value), "create a type for", "booleans");
  return type;
}

/// As h5py has them.
Type complex(tensor::DataType dtype) {
  const auto part = tensor::parts_of(dtype);
  const std::size_t size = tensor::size_of(part.type);
  Type type(check(H5Tcreate(H5T_COMPOUND, 2 * size), "create a type for", "complex numbers"));
  const Type half = element_type(part.type);
  check(H5Tinsert(type.get(), "r", 0, half.get()), "create a type for", "complex numbers");
  check(H5Tinsert(type.get(), "i", size, half.get()), "create a type for", "complex numbers");
  return type;
}

}  // namespace

Type element_type(tensor::DataType dtype) {
  hdf5::Lock lock;
  auto copy = [](hid_t type) { return Type(check(H5Tcopy(type), "copy", "a type")); };
  switch (dtype) {
    case tensor::DataType::float32:
      return copy(H5T_IEEE_F32LE);
    case tensor::DataType::float64:
      return copy(H5T_IEEE_F64LE);
    case tensor::DataType::float16:
      return floating(2, 5, 10, 15);
    case tensor::DataType::bfloat16:
      return floating(2, 8, 7, 127);
    case tensor::DataType::int32:
      return copy(H5T_STD_I32LE);
    case tensor::DataType::int64:
      return copy(H5T_STD_I64LE);
    case tensor::DataType::byte:
      return copy(H5T_STD_U8LE);
    case tensor::DataType::int8:
      return copy(H5T_STD_I8LE);
    case tensor::DataType::int16:
      return copy(H5T_STD_I16LE);
    case tensor::DataType::boolean:
      return boolean();
    case tensor::DataType::complex64:
    case tensor::DataType::complex128:
      return complex(dtype);
  }
  throw Error(ExitCode::internal, "a data type without an HDF5 type");
}

Space space_of(const tensor::Shape& shape) {
  hdf5::Lock lock;
  if (shape.empty()) return Space(check(H5Screate(H5S_SCALAR), "create a space for", "a scalar"));
  std::vector<hsize_t> extents(shape.begin(), shape.end());
  return Space(check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), "create a space for",
                     tensor::to_string(shape)));
}

}  // namespace distdl::checkpoint
