// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <distdl/capi/library/handles.hpp>

namespace distdl::capi {
namespace {
constexpr std::uintptr_t kKinds = 8;     ///< the last bits of a handle are its kind
constexpr std::uintptr_t kFirst = 4096;  ///< no small number is a handle
constexpr std::array kNames{"a communicator", "a request", "a sum", "a store", "a save", "a load"};

std::uintptr_t number_of(const void* handle) {
  return reinterpret_cast<std::uintptr_t>(handle);
}
}  // namespace

Handles::Handles() : next_(kFirst) {}

Handles& Handles::all() {
  static auto* const handles = new Handles;  // threads may use it until the process has ended
  return *handles;
}

void* Handles::open(Kind kind, std::shared_ptr<void> object) {
  const std::lock_guard lock(mutex_);
  const std::uintptr_t number = next_ + static_cast<std::uintptr_t>(kind);
  objects_.emplace(number, std::move(object));
  next_ += kKinds;
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr): it is never an address
}

std::shared_ptr<void> Handles::find(Kind kind, const void* handle, const char* argument) const {
  need(handle != nullptr, "{} is null", argument);
  const std::uintptr_t number = number_of(handle);
  const std::size_t found = number % kKinds;
  const std::lock_guard lock(mutex_);
  need(number >= kFirst && number < next_ && found < kNames.size(), "{} is no handle of distdl", argument);
  need(found == static_cast<std::size_t>(kind), "{} is {}, but must be {}", argument, kNames.at(found),
       kNames.at(static_cast<std::size_t>(kind)));
  const auto object = objects_.find(number);
  need(object != objects_.end(), "{} was closed", argument);
  return object->second;
}

std::vector<std::shared_ptr<void>> Handles::open_ones(Kind kind) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<void>> found;
  for (const auto& [number, object] : objects_)
    if (number % kKinds == static_cast<std::uintptr_t>(kind)) found.push_back(object);
  return found;
}

void Handles::close(const void* handle) {
  std::shared_ptr<void> object;  // ends after the lock
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(number_of(handle));
  if (found == objects_.end()) return;
  object = std::move(found->second);
  objects_.erase(found);
}

}  // namespace distdl::capi
