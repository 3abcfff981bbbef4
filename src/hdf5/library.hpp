// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace distdl::hdf5 {

/// The HDF5 library that this process uses.
struct Library {
  std::string version;  ///< "1.10.8"
  bool is_thread_safe = false;
};

/// Returns nothing if the library cannot be used.
std::optional<Library> find_library();

}  // namespace distdl::hdf5
