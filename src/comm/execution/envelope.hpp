// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace distdl::comm {

/// In front of an active message's header.
struct Envelope {
  std::uint64_t token = 0;  ///< by which the receiver knows that `from` sent it
  std::int32_t from = 0;    ///< a rank
  std::uint32_t number = 0;
  bool operator==(const Envelope&) const = default;
};

constexpr std::size_t kLongestHeader = 1024;  ///< bytes

/// What goes before the payload.
std::string encode(const Envelope& envelope, std::string_view header);

struct Opened {
  Envelope envelope;
  std::string_view header;  ///< within the bytes
};
/// Nothing if `bytes` were not made by encode(). Whether there is a rank `from` is for the caller to say.
std::optional<Opened> decode_envelope(std::string_view bytes);

}  // namespace distdl::comm
