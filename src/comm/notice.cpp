// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/comm/notice.hpp>

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

Notice decode_notice(std::string_view bytes) {
  require<CommError>(bytes.size() >= kHeader, "a notice of {} bytes: expected at least {}", bytes.size(), kHeader);
  std::int32_t numbers[3];
  std::memcpy(numbers, bytes.data() + 1, sizeof numbers);
  return {static_cast<Notice::Kind>(bytes[0]), Rank(numbers[0]), Rank(numbers[1]), std::string(bytes.substr(kHeader)),
          static_cast<ExitCode>(numbers[2])};
}

}  // namespace distdl::comm
