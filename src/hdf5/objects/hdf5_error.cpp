// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <distdl/base/errors.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::hdf5 {
namespace {
herr_t note_innermost(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}
}  // namespace

std::string failure_reason() {
  assert(Lock::is_held());
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &note_innermost, &reason);
  H5Eclear2(H5E_DEFAULT);
  return reason.empty() ? "the reason is unknown" : reason;
}

std::string file_of(hid_t object) {
  assert(Lock::is_held());
  std::array<char, 4096> name{};
  return H5Fget_name(object, name.data(), name.size()) > 0 ? std::string(name.data()) : "a file";
}

std::string name_of(hid_t object) {
  assert(Lock::is_held());
  std::array<char, 1024> name{};
  return H5Iget_name(object, name.data(), name.size()) > 0 ? std::string(name.data()) : "an object";
}

void fail(const std::string& purpose, const std::string& object) {
  throw StorageError(fmt::format("cannot {} \"{}\" (HDF5: {})", purpose, object, failure_reason()));
}

}  // namespace distdl::hdf5
