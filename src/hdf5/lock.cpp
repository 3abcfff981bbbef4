// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include <distdl/hdf5/lock.hpp>
#include <distdl/hdf5/objects/hdf5_handles.hpp>

namespace distdl::hdf5 {
namespace {
/// Before any other call: a file that could not be written stays open in HDF5 1.10, which at exit tries again and
/// crashes. Every file that counts is closed, and synced, long before.
const herr_t kWithoutExit = H5dont_atexit();

constinit std::mutex mutex;

/// Counted here rather than by a recursive mutex, which a child process would not own after fork().
struct Holding {
  int depth = 0;
  H5E_auto2_t print = nullptr;
  void* print_data = nullptr;
};
constinit thread_local Holding holding;
}  // namespace

Lock::Lock() {
  if (holding.depth == 0) {
    mutex.lock();
    H5Eget_auto2(H5E_DEFAULT, &holding.print, &holding.print_data);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ++holding.depth;
}

Lock::~Lock() {
  if (--holding.depth > 0) return;
  H5Eset_auto2(H5E_DEFAULT, holding.print, holding.print_data);
  mutex.unlock();
}

bool Lock::is_held() noexcept {
  return holding.depth > 0;
}

}  // namespace distdl::hdf5
