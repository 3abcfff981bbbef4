// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <hdf5.h>

#include <distdl/base/handles.hpp>
#include <distdl/hdf5/lock.hpp>

/// Owners of HDF5's objects. This is the only file that includes HDF5's header.
namespace distdl::hdf5 {

template <auto Close>
void close_locked(hid_t id) noexcept {
  Lock lock;
  Close(id);
}

template <auto Close>
using Handle = UniqueHandle<hid_t, &close_locked<Close>, hid_t{-1}>;

using File = Handle<&H5Fclose>;
using Dataset = Handle<&H5Dclose>;
using Object = Handle<&H5Oclose>;
using Space = Handle<&H5Sclose>;
using Type = Handle<&H5Tclose>;
using Attribute = Handle<&H5Aclose>;
using Properties = Handle<&H5Pclose>;

static_assert(std::is_nothrow_move_constructible_v<File> && !std::is_copy_constructible_v<File>);
static_assert(!std::is_same_v<File, Dataset>);

}  // namespace distdl::hdf5
