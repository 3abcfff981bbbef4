// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// A short message beside the data, read whenever a rank waits.
struct ControlMessage {
  enum class Kind : char {
    stopped = 's',  ///< `subject` is lost; `text` says why. Sent on by whoever learns it first
    ask = '?',      ///< "are you there, and whom do you wait for?"
    waiting = 'w',  ///< the answer: for `subject`, in the operation `text`
  };
  Kind kind = Kind::ask;
  Rank sender;
  Rank subject;
  std::string text;
  ExitCode code = ExitCode::peer_lost;  ///< with `stopped`: with which code `subject` ends, as far as it could tell
};

/// Control messages are cut to this length, so that they are always sent eagerly: the receiver need not take part.
constexpr std::size_t kLongestControlMessage = 1024;

std::string encode(const ControlMessage& control_message);
/// Nothing if `bytes` were not made by encode().
std::optional<ControlMessage> decode_control_message(std::string_view bytes);

}  // namespace distdl::comm
