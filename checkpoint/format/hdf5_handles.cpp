// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/hdf5_handles.hpp>

namespace distdl::checkpoint::hdf5 {
namespace {
herr_t innermost(unsigned n, const H5E_error2_t* error, void* text) {
  if (n == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// Before any other call: a file that could not be written stays open in HDF5 1.10, which at exit tries again and
/// crashes
///. Every file that counts is closed, and synced, long before.
const herr_t kWithoutExit = H5dont_atexit();
}  // namespace

QuietErrors::QuietErrors() {
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

QuietErrors::~QuietErrors() {
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

void fail(const std::string& purpose, const std::string& object) {
  std::string cause = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &innermost, &cause);
  throw StorageError(fmt::format("cannot {} \"{}\" (HDF5: {})", purpose, object, cause));
}

}  // namespace distdl::checkpoint::hdf5
