// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/random.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>

namespace distdl {

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t filled = 0; filled < count;) {
    const auto got = ::getrandom(bytes.data() + filled, count - filled, 0);
    if (got < 0 && errno != EINTR)
      throw InternalError(fmt::format("the system does not provide random numbers: {}", errno_text(errno)));
    filled += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  return bytes;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  std::memcpy(&number, random_bytes(sizeof number).data(), sizeof number);
  return number;
}

std::string random_hex(std::size_t bytes) {
  std::string text;
  for (char byte : random_bytes(bytes)) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace distdl
