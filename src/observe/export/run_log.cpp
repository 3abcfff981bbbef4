// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <zlib.h>

#include <distdl/base/wire.hpp>
#include <distdl/observe/export/run_log.hpp>

namespace distdl::observe {
namespace {
constexpr std::size_t kBlockBytes = 32768, kFragmentHead = 7;
enum class Fragment : char { full = 1, first = 2, middle = 3, last = 4 };

std::string fragment(Fragment kind, std::string_view data) {
  const auto type = static_cast<Bytef>(kind);
  auto crc = ::crc32(0, &type, 1);
  crc = ::crc32(crc, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  return little_endian(crc, 4) + little_endian(data.size(), 2) + static_cast<char>(kind) + std::string(data);
}
}  // namespace

RunLog::RunLog() : bytes_(":W&B" + little_endian(0xbee1, 2) + '\0') {}

void RunLog::append(std::string_view record) {
  for (bool begins = true, ends = false; !ends; begins = false) {
    std::size_t room = kBlockBytes - bytes_.size() % kBlockBytes;
    if (room < kFragmentHead) {
      bytes_.append(room, '\0');
      room = kBlockBytes;
    }
    const std::size_t size = std::min(room - kFragmentHead, record.size());
    ends = size == record.size();
    bytes_ += fragment(ends     ? begins ? Fragment::full : Fragment::last
                       : begins ? Fragment::first
                                : Fragment::middle,
                       record.substr(0, size));
    record.remove_prefix(size);
  }
}

}  // namespace distdl::observe
