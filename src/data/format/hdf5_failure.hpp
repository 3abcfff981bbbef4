// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <string_view>

#include <distdl/hdf5/objects/hdf5_error.hpp>

/// Errors for users when HDF5 fails on a data set. Called under the lock of HDF5.
namespace distdl::data {

enum class Access { reading, writing };

/// Throws StorageError that names `what`, the file of `object` and HDF5's reason: storage for writing, corrupt for
/// reading.
[[noreturn]] void fail(Access access, hid_t object, std::string_view what);

/// Returns the value of a call if it did not fail.
template <class Status>
Status check(Status status, Access access, hid_t object, std::string_view what) {
  assert(hdf5::Lock::is_held());
  if (status < 0) fail(access, object, what);
  return status;
}

/// Throws StorageError (corrupt) for data that HDF5 can read but distdl never writes.
[[noreturn]] void reject(hid_t object, std::string_view what, std::string_view why);

}  // namespace distdl::data
