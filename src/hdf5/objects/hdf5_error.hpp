// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <string>

#include <distdl/hdf5/objects/hdf5_handles.hpp>

/// What HDF5 has to say about a call that failed. All of it is called under the Lock that the call was made under.
namespace distdl::hdf5 {

/// The innermost, and so most specific, entry of HDF5's error stack, which it clears.
std::string failure_reason();

/// For messages: the name of the file that an open object lies in, or "a file".
std::string file_of(hid_t object);
/// For messages: the path of an open object within its file, or "an object".
std::string name_of(hid_t object);

/// Throws StorageError: cannot <purpose> "<object>" (HDF5: <reason>).
[[noreturn]] void fail(const std::string& purpose, const std::string& object);

/// The value of a call, if it did not fail.
template <class T>
T check(T result, const std::string& purpose, const std::string& object) {
  assert(Lock::is_held());
  if (result < 0) fail(purpose, object);
  return result;
}

}  // namespace distdl::hdf5
