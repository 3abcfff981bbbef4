// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/comm/cost_table.hpp>

namespace distdl::comm {
namespace {
constexpr std::string_view kMagic = "distdl-costs";
}

std::string CostTable::encode() const {
  std::string bytes(kMagic);
  bytes += static_cast<char>(kVersion);
  describe_costs(*this, [&](const char*, const double& value, const char*, const char*) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  });
  return bytes;
}

CostTable CostTable::decode(std::string_view bytes) {
  CostTable table;
  std::size_t fields = 0;
  describe_costs(table, [&](const char*, double&, const char*, const char*) { ++fields; });
  const std::size_t head = kMagic.size() + 1;
  require<CommError>(bytes.size() == head + fields * sizeof(double) && bytes.starts_with(kMagic) &&
                         bytes[kMagic.size()] == static_cast<char>(kVersion),
                     "{} bytes are not a cost table of version {}; do all ranks run the same distdl?", bytes.size(),
                     kVersion);
  const char* next = bytes.data() + head;
  describe_costs(table, [&](const char*, double& value, const char*, const char*) {
    std::memcpy(&value, next, sizeof value);
    next += sizeof value;
  });
  return table;
}

}  // namespace distdl::comm
