// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace distdl::hdf5 {

/// The HDF5 that this process runs with.
struct Library {
  std::string version;  ///< "1.10.8"
  bool is_thread_safe = false;
};

/// Nothing if it does not answer.
std::optional<Library> find_library();

}  // namespace distdl::hdf5
