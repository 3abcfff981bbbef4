// SPDX-License-Identifier: Apache-2.0
// PPM and PGM of 8 bits: https://netpbm.sourceforge.net/doc/ppm.html
#include <algorithm>
#include <cctype>

#include <distdl/data/codecs/codec.hpp>

namespace distdl::data {
namespace {
struct Pnm {
  ImageHead head;
  std::size_t channels = 0, begin = 0;  ///< where the pixels begin
};

/// The number after white space and comments; `at` moves behind it.
std::int64_t next_number(std::string_view text, std::size_t& at) {
  constexpr std::int64_t kMost = 1 << 30;
  bool is_comment = false;
  while (at < text.size() && (is_comment || text[at] == '#' || std::isspace(static_cast<unsigned char>(text[at])))) {
    is_comment = text[at] == '#' || (is_comment && text[at] != '\n');
    ++at;
  }
  const std::size_t first = at;
  std::int64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && number < kMost; ++at)
    number = number * 10 + (text[at] - '0');
  require<BrokenImage>(at > first && at < text.size(), "damaged PPM or PGM: a number is missing");
  return number;
}

Pnm read_pnm(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Pnm pnm;
  pnm.channels = text[1] == '6' ? 3 : 1;
  std::size_t at = 2;
  pnm.head.width = next_number(text, at);
  pnm.head.height = next_number(text, at);
  const std::int64_t most = next_number(text, at);
  require_extents(pnm.head.width, pnm.head.height);
  require<BrokenImage>(most == 255, "its largest value is {}, but 255 is expected of PPM and PGM", most);
  pnm.begin = at + 1;  // one white space
  const std::size_t expected = static_cast<std::size_t>(pnm.head.width * pnm.head.height) * pnm.channels;
  require<BrokenImage>(bytes.size() - pnm.begin >= expected, "damaged PPM or PGM: it ends too early");
  return pnm;
}
}  // namespace

Codec pnm_codec() {
  return {.name = "PPM",
          .begins =
              [](std::span<const std::byte> bytes) {
                return bytes.size() > 2 && bytes[0] == std::byte{'P'} &&
                       (bytes[1] == std::byte{'5'} || bytes[1] == std::byte{'6'}) &&
                       std::isspace(std::to_integer<int>(bytes[2])) != 0;
              },
          .head = [](std::span<const std::byte> bytes) { return read_pnm(bytes).head; },
          .decode =
              [](std::span<const std::byte> bytes, const Rectangle&, int, DecodedPart& part) {
                const Pnm pnm = read_pnm(bytes);
                const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data()) + pnm.begin;
                part.place = {0, 0, pnm.head.width, pnm.head.height};
                part.rgb.resize(static_cast<std::size_t>(pnm.head.width * pnm.head.height * 3));
                if (pnm.channels == 3)
                  std::copy_n(from, part.rgb.size(), part.rgb.begin());
                else
                  for (std::size_t i = 0; i < part.rgb.size(); ++i) part.rgb[i] = from[i / 3];
              }};
}

}  // namespace distdl::data
