// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include <distdl/comm/ucx/control_message.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kHeader = 1 + 3 * sizeof(std::int32_t);
}

std::string encode(const Notice& notice) {
  const std::int32_t numbers[3] = {notice.sender.value, notice.subject.value, static_cast<int>(notice.code)};
  std::string bytes(1, static_cast<char>(notice.kind));
  bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  return bytes + notice.text.substr(0, kLongestNotice - kHeader);
}

std::optional<Notice> decode_notice(std::string_view bytes) {
  if (bytes.size() < kHeader || bytes.size() > kLongestNotice) return std::nullopt;
  const auto kind = static_cast<Notice::Kind>(bytes[0]);
  if (kind != Notice::Kind::stopped && kind != Notice::Kind::ask && kind != Notice::Kind::waiting) return std::nullopt;
  std::int32_t numbers[3];
  std::memcpy(numbers, bytes.data() + 1, sizeof numbers);
  return Notice{kind, Rank(numbers[0]), Rank(numbers[1]), std::string(bytes.substr(kHeader)),
                static_cast<ExitCode>(numbers[2])};
}

}  // namespace distdl::comm
