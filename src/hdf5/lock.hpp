// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::hdf5 {

/// The one lock on HDF5 in this process. Many builds of HDF5 are not thread-safe, and even where one is, a failed call
/// and its error stack belong together. Every call is made under a Lock; handles (objects/hdf5_handles.hpp) take it
/// themselves when they close.
///
/// A thread may nest Locks. Hold one for an object or a chunk, not for a whole file: the thread that loads data waits
/// for it. Never wait for another thread or rank while you hold it.
///
/// HDF5 prints no errors while it is held; the outermost Lock restores what was set before.
///
/// fork() under a Lock, if the child is to use HDF5: no other thread is within HDF5 then, and the child holds the Lock
/// as well. Example: hdf5::Lock lock; if (fork() == 0) _exit(look_into_the_file());
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  /// Whether the calling thread holds one.
  static bool is_held() noexcept;
};

}  // namespace distdl::hdf5
