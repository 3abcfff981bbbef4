// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::cuda {

/// The symbol kPluginSymbol of the plug-in libdistdl_cuda.so. Because of the plug-in, a program without a GPU does not
/// load CUDA's libraries (half a gigabyte), which need not be installed.
struct Plugin {
  /// Version and digest of the headers with which both sides were compiled. They must be equal, because C++ objects are
  /// passed across the border. Must stay the first member.
  const char* interface;
  /// The caller owns the result. Throws as make_cuda_backend() does.
  Backend* (*make)(const Options& options);
};

inline constexpr const char* kPluginFile = "libdistdl_cuda.so";
inline constexpr const char* kPluginSymbol = "distdl_cuda_plugin";

}  // namespace distdl::kernels::cuda
