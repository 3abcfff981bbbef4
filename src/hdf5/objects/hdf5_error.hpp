// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <string>

#include <distdl/hdf5/objects/hdf5_handles.hpp>

/// The error messages of HDF5. Each function is called under the Lock of the call that failed.
namespace distdl::hdf5 {

/// The innermost, most specific entry of HDF5's error stack, which is cleared. Throws ResourceError if HDF5 got no
/// memory or no descriptor, because that says nothing about the file.
std::string failure_reason();

/// For messages: the name of the file that contains an open object, or "a file".
std::string file_of(hid_t object);
/// For messages: the path of an open object within its file, or "an object".
std::string name_of(hid_t object);

/// Throws StorageError: cannot <purpose> "<object>" (HDF5: <reason>). Throws as failure_reason() does.
[[noreturn]] void fail(const std::string& purpose, const std::string& object);

/// Returns the value of a call if it did not fail.
template <class T>
T check(T result, const std::string& purpose, const std::string& object) {
  assert(Lock::is_held());
  if (result < 0) fail(purpose, object);
  return result;
}

}  // namespace distdl::hdf5
