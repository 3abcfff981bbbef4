// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include <distdl/comm/ucx/control_message.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kHeader = 1 + 3 * sizeof(std::int32_t);
}

std::string encode(const ControlMessage& control_message) {
  const std::int32_t numbers[3] = {control_message.sender.value, control_message.subject.value,
                                   static_cast<int>(control_message.code)};
  std::string bytes(1, static_cast<char>(control_message.kind));
  bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  return bytes + control_message.text.substr(0, kLongestControlMessage - kHeader);
}

std::optional<ControlMessage> decode_control_message(std::string_view bytes) {
  if (bytes.size() < kHeader || bytes.size() > kLongestControlMessage) return std::nullopt;
  const auto kind = static_cast<ControlMessage::Kind>(bytes[0]);
  if (kind != ControlMessage::Kind::stopped && kind != ControlMessage::Kind::ask &&
      kind != ControlMessage::Kind::waiting)
    return std::nullopt;
  std::int32_t numbers[3];
  std::memcpy(numbers, bytes.data() + 1, sizeof numbers);
  return ControlMessage{kind, Rank(numbers[0]), Rank(numbers[1]), std::string(bytes.substr(kHeader)),
                        static_cast<ExitCode>(numbers[2])};
}

}  // namespace distdl::comm
