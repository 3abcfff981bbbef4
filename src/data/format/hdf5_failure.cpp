// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/data/format/hdf5_failure.hpp>

namespace distdl::data {

void fail(Access access, hid_t object, std::string_view what) {
  std::string reason = hdf5::failure_reason();
  if (access == Access::writing)
    throw StorageError(fmt::format("cannot write {} of \"{}\" (HDF5: {}); is the file system full or read-only?", what,
                                   hdf5::file_of(object), reason));
  throw StorageError(fmt::format("cannot read {} of \"{}\" (HDF5: {}); create or copy the file again", what,
                                 hdf5::file_of(object), reason),
                     ExitCode::corrupt);
}

void reject(hid_t object, std::string_view what, std::string_view why) {
  throw StorageError(fmt::format("{} of \"{}\" {}; create or copy the file again", what, hdf5::file_of(object), why),
                     ExitCode::corrupt);
}

}  // namespace distdl::data
