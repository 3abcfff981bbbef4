// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::test {

/// A backend for tests without a GPU: the layers of another one, whose memory is that of a comm::FarAccelerator. Host
/// code that reads or writes the memory ends the program. Replays do what a recorded pass may do, and no more: they
/// neither copy from or to the host, nor allocate, nor wait for other ranks.
std::unique_ptr<Backend> make_far_backend(std::unique_ptr<Backend> layers);

/// Of what such a backend has reserved.
std::size_t committed_bytes(const Backend& far_backend);

}  // namespace distdl::kernels::test
