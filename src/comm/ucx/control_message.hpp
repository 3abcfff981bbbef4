// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// A short message in addition to the data. Ranks read it in their waits.
struct ControlMessage {
  enum class Kind : char {
    stopped = 's',  ///< `subject` is lost, and `text` has the reason; the first rank that knows sends it to the others
    ask = '?',      ///< "are you there, and whom do you wait for?"
    waiting = 'w',  ///< the answer: the sender waits for `subject` in the operation `text`
  };
  Kind kind = Kind::ask;
  Rank sender;
  Rank subject;
  std::string text;
  ExitCode code = ExitCode::peer_lost;  ///< for `stopped`: the exit code of `subject` as far as it is known
};

/// Control messages are truncated to this length, so that they are always sent eagerly and need no action of the
/// receiver.
constexpr std::size_t kLongestControlMessage = 1024;

std::string encode(const ControlMessage& control_message);
/// Returns nothing if encode() did not make `bytes`.
std::optional<ControlMessage> decode_control_message(std::string_view bytes);

}  // namespace distdl::comm
