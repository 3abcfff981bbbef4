// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <distdl/capi/library/error.hpp>

namespace distdl::capi {

/// The kind of object that a handle stands for.
enum class Kind : std::uint8_t { communicator, request, sum, store, save, load };

/// Handles are numbers that are never used again, not addresses: one that was closed, or is of another kind, is found
/// out without looking at memory. Thread-safe.
class Handles {
 public:
  static Handles& all();

  /// The handle of an object, which lives at least until it is closed.
  void* open(Kind kind, std::shared_ptr<void> object);
  /// The object. Throws CallError (DISTDL_INVALID) that names the argument.
  std::shared_ptr<void> find(Kind kind, const void* handle, const char* argument) const;
  /// The objects of this kind that are open.
  std::vector<std::shared_ptr<void>> open_ones(Kind kind) const;
  /// Afterwards find() refuses it. Nothing happens if it is closed already.
  void close(const void* handle);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<void>> objects_;
  std::uintptr_t next_;

  Handles();
};

/// A C type of handles, its kind, and the class of its objects: each class T has them as members.
template <class T>
std::shared_ptr<T> object_of(typename T::Handle* handle, const char* argument) {
  return std::static_pointer_cast<T>(Handles::all().find(T::kKind, handle, argument));
}
template <class T>
typename T::Handle* open_handle(std::shared_ptr<T> object) {
  return static_cast<typename T::Handle*>(Handles::all().open(T::kKind, std::move(object)));
}
inline void close_handle(const void* handle) {
  Handles::all().close(handle);
}

/// The place for a handle that is made: null until then.
template <class Handle>
void clear(Handle** result, const char* argument) {
  need(result != nullptr, "{} is null", argument);
  *result = nullptr;
}

}  // namespace distdl::capi
