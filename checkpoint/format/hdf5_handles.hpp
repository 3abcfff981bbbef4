// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <hdf5.h>

#include <distdl/base/handles.hpp>

// Only the files called hdf5_* know HDF5.
namespace distdl::checkpoint::hdf5 {

inline void close_file(hid_t id) noexcept {
  H5Fclose(id);
}
inline void close_dataset(hid_t id) noexcept {
  H5Dclose(id);
}
inline void close_object(hid_t id) noexcept {
  H5Oclose(id);
}
inline void close_space(hid_t id) noexcept {
  H5Sclose(id);
}
inline void close_type(hid_t id) noexcept {
  H5Tclose(id);
}
inline void close_attribute(hid_t id) noexcept {
  H5Aclose(id);
}
inline void close_properties(hid_t id) noexcept {
  H5Pclose(id);
}

using File = UniqueHandle<hid_t, &close_file, hid_t{-1}>;
using Dataset = UniqueHandle<hid_t, &close_dataset, hid_t{-1}>;
using Object = UniqueHandle<hid_t, &close_object, hid_t{-1}>;
using Space = UniqueHandle<hid_t, &close_space, hid_t{-1}>;
using Type = UniqueHandle<hid_t, &close_type, hid_t{-1}>;
using Attribute = UniqueHandle<hid_t, &close_attribute, hid_t{-1}>;
using Properties = UniqueHandle<hid_t, &close_properties, hid_t{-1}>;

/// Keeps HDF5 from printing its error stack to stderr while it lives.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Throws StorageError with the innermost message of HDF5's error stack, naming purpose and object.
[[noreturn]] void fail(const std::string& purpose, const std::string& object);

/// The value of a call, if it did not fail.
template <class T>
T check(T result, const std::string& purpose, const std::string& object) {
  if (result < 0) fail(purpose, object);
  return result;
}

}  // namespace distdl::checkpoint::hdf5
