// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>

#include <distdl/data/codecs/exif.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kEntry = 12;
constexpr std::uint32_t kOrientation = 0x0112, kShort = 3;

/// Numbers of either order of bytes; 0 beyond the end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> data) : data_(data), is_little_(byte(0) == 'I') {}
  std::uint32_t number(std::size_t at, std::size_t bytes) const {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | byte(at + (is_little_ ? bytes - 1 - i : i));
    return value;
  }

 private:
  std::uint32_t byte(std::size_t at) const { return at < data_.size() ? std::to_integer<std::uint32_t>(data_[at]) : 0; }
  std::span<const std::byte> data_;
  bool is_little_;
};
}  // namespace

int orientation_of(std::span<const std::byte> data, std::string_view prefix) {
  if (data.size() < prefix.size() || std::memcmp(data.data(), prefix.data(), prefix.size()) != 0) return 1;
  const Tiff tiff(data.subspan(prefix.size()));
  if (tiff.number(2, 2) != 42) return 1;  // TIFF's mark
  const std::size_t table = tiff.number(4, 4), entries = tiff.number(table, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = table + 2 + i * kEntry;
    if (tiff.number(entry, 2) != kOrientation || tiff.number(entry + 2, 2) != kShort) continue;
    const std::uint32_t value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Turn turn_of(int orientation) {
  static constexpr std::array<Turn, 9> kTurns{{{},
                                               {},
                                               {false, true, false},
                                               {false, true, true},
                                               {false, false, true},
                                               {true, false, false},
                                               {true, true, false},
                                               {true, true, true},
                                               {true, false, true}}};
  return kTurns[static_cast<std::size_t>(orientation)];
}

}  // namespace distdl::data
