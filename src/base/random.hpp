// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// Unpredictable random numbers of the operating system, see getrandom(2). The functions throw InternalError if there
// are none. For reproducible numbers see philox.hpp.
namespace distdl {

std::string random_bytes(std::size_t count);
std::uint64_t random_number();
/// `bytes` random bytes as hexadecimal digits, for unique names.
std::string random_hex(std::size_t bytes);

}  // namespace distdl
