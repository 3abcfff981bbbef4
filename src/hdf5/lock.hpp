// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::hdf5 {

/// The lock on HDF5 in this process; there is only one. Many builds of HDF5 are not thread-safe, and even in those that
/// are, a failed call and its error stack belong together. Every call is made under a Lock. Handles
/// (objects/hdf5_handles.hpp) take it themselves when they are closed.
///
/// A thread may nest Locks. Hold a Lock for an object or a chunk, not for a whole file, because the thread that loads
/// data waits for it. Never wait for another thread or rank while you hold it.
///
/// HDF5 prints no errors while a Lock is held. The outermost Lock restores the previous setting.
///
/// If a child process is to use HDF5, fork() under a Lock: no other thread is then in HDF5, and the child also holds
/// the Lock. Example: hdf5::Lock lock; if (fork() == 0) _exit(look_into_the_file());
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// Whether the calling thread holds a Lock.
  static bool is_held() noexcept;
};

}  // namespace distdl::hdf5
