// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/comm/notice.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kHeader = 1 + 2 * sizeof(std::int32_t);
}

std::string encode(const Notice& notice) {
  const std::int32_t ranks[2] = {notice.sender.value, notice.subject.value};
  std::string bytes(1, static_cast<char>(notice.kind));
  bytes.append(reinterpret_cast<const char*>(ranks), sizeof ranks);
  return bytes + notice.text.substr(0, kLongestNotice - kHeader);
}

Notice decode_notice(std::string_view bytes) {
  require<CommError>(bytes.size() >= kHeader, "a notice of {} bytes: expected at least {}", bytes.size(), kHeader);
  std::int32_t ranks[2];
  std::memcpy(ranks, bytes.data() + 1, sizeof ranks);
  return {static_cast<Notice::Kind>(bytes[0]), Rank(ranks[0]), Rank(ranks[1]), std::string(bytes.substr(kHeader))};
}

}  // namespace distdl::comm
