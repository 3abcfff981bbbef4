// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <distdl/hdf5/library.hpp>
#include <distdl/hdf5/objects/hdf5_handles.hpp>

namespace distdl::hdf5 {

std::optional<Library> find_library() {
  Lock lock;
  unsigned major = 0, minor = 0, release = 0;
  hbool_t thread_safe = false;
  if (H5get_libversion(&major, &minor, &release) < 0 || H5is_library_threadsafe(&thread_safe) < 0) return std::nullopt;
  return Library{fmt::format("{}.{}.{}", major, minor, release), static_cast<bool>(thread_safe)};
}

}  // namespace distdl::hdf5
