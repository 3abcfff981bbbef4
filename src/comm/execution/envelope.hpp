// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace distdl::comm {

/// The bytes before an active message's header.
struct Envelope {
  std::uint64_t token = 0;  ///< proves to the receiver that `from` sent the message
  std::int32_t from = 0;    ///< a rank
  std::uint32_t number = 0;
  bool operator==(const Envelope&) const = default;
};

constexpr std::size_t kLongestHeader = 1024;  ///< bytes

/// The bytes before the payload.
std::string encode(const Envelope& envelope, std::string_view header);

struct Opened {
  Envelope envelope;
  std::string_view header;  ///< within the bytes
};
/// Returns nothing if encode() did not make `bytes`. The caller has to check that the rank `from` exists.
std::optional<Opened> decode_envelope(std::string_view bytes);

}  // namespace distdl::comm
