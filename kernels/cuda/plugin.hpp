// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::cuda {

/// What the plug-in libdistdl_cuda.so exports under kPluginSymbol. It is a plug-in so that a program starts without
/// CUDA's libraries (half a gigabyte) where no GPU is used, and at all where they are not installed.
struct Plugin {
  /// Version and digest of the headers that both sides were compiled with: C++ objects cross the border, so these must
  /// be the same. Stays the first member.
  const char* interface;
  /// The caller owns the result. Throws what make_cuda_backend does.
  Backend* (*make)(const Options& options);
};

inline constexpr const char* kPluginFile = "libdistdl_cuda.so";
inline constexpr const char* kPluginSymbol = "distdl_cuda_plugin";

}  // namespace distdl::kernels::cuda
