// SPDX-License-Identifier: Apache-2.0
// As much of NVIDIA's driver as cuDNN wants in order to plan: it takes the code that cuDNN compiles, and runs nothing.
#define DISTDL_DRIVER extern "C" __attribute__((visibility("default")))

namespace {
constexpr int kSuccess = 0, kNotSupported = 801;
char something;
}  // namespace

DISTDL_DRIVER int cuGetErrorName(int, const char** name) {
  *name = "an error of the test's driver";
  return kSuccess;
}
DISTDL_DRIVER int cuGetErrorString(int code, const char** text) {
  return cuGetErrorName(code, text);
}
DISTDL_DRIVER int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = &something;
  return kSuccess;
}
DISTDL_DRIVER int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &something;
  return kSuccess;
}
DISTDL_DRIVER int cuLibraryUnload(void*) {
  return kSuccess;
}
DISTDL_DRIVER int cuKernelSetAttribute(int, int, void*, int) {
  return kSuccess;
}

// These only need to be there.
#define DISTDL_ABSENT(name)  \
  DISTDL_DRIVER int name() { \
    return kNotSupported;    \
  }
DISTDL_ABSENT(cuCtxGetCurrent)
DISTDL_ABSENT(cuCtxGetLimit)
DISTDL_ABSENT(cuCtxPopCurrent)
DISTDL_ABSENT(cuCtxPushCurrent)
DISTDL_ABSENT(cuDeviceGet)
DISTDL_ABSENT(cuDeviceGetCount)
DISTDL_ABSENT(cuDriverGetVersion)
DISTDL_ABSENT(cuKernelGetAttribute)
DISTDL_ABSENT(cuLaunchCooperativeKernel)
DISTDL_ABSENT(cuLaunchKernel)
DISTDL_ABSENT(cuLaunchKernelEx)
DISTDL_ABSENT(cuLibraryLoadFromFile)
DISTDL_ABSENT(cuLinkAddData)
DISTDL_ABSENT(cuLinkComplete)
DISTDL_ABSENT(cuLinkCreate)
DISTDL_ABSENT(cuLinkDestroy)
DISTDL_ABSENT(cuOccupancyMaxPotentialClusterSize)
DISTDL_ABSENT(cuStreamGetCtx)
