// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/comm/execution/envelope.hpp>

namespace distdl::comm {

static_assert(sizeof(Envelope) == 16, "the same on the wire");

std::string encode(const Envelope& envelope, std::string_view header) {
  std::string bytes(sizeof envelope, '\0');
  std::memcpy(bytes.data(), &envelope, sizeof envelope);
  return bytes += header;
}

std::optional<Opened> decode_envelope(std::string_view bytes) {
  if (bytes.size() < sizeof(Envelope) || bytes.size() > sizeof(Envelope) + kLongestHeader) return std::nullopt;
  Opened opened{{}, bytes.substr(sizeof(Envelope))};
  std::memcpy(&opened.envelope, bytes.data(), sizeof(Envelope));
  return opened;
}

}  // namespace distdl::comm
