// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <limits>
#include <regex>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/npy_header.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kLargestHeader = 1 << 20;  ///< bytes
constexpr std::size_t kMostNpyAxes = 32;         ///< NumPy's own limit was so many
}  // namespace

std::optional<NpyHeader> read_npy_header(const std::string& name,
                                         const std::function<std::span<const std::byte>(std::size_t)>& ahead) {
  constexpr std::size_t kMagic = 6, kShort = kMagic + 2 + sizeof(std::uint16_t);
  auto bytes = ahead(kShort + 2);
  if (bytes.size() < kShort + 2 || std::memcmp(bytes.data(), "\x93NUMPY", kMagic) != 0) return std::nullopt;
  const bool is_short = bytes[kMagic] == std::byte{1};
  const std::size_t begin = is_short ? kShort : kShort + 2;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + kMagic + 2, is_short ? sizeof(std::uint16_t) : sizeof length);
  require(length <= kLargestHeader, "{} is an array of NumPy with a header of {} bytes, but at most {} are expected",
          name, length, kLargestHeader);
  bytes = ahead(begin + length);
  if (bytes.size() < begin + length)
    throw StorageError(fmt::format("{} is truncated: it ends within its header; make it again", name),
                       ExitCode::corrupt);
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + begin, length);
  NpyHeader header{.bytes = begin + length, .text = text.substr(0, text.find_last_not_of(" \n") + 1)};

  // Not " *": std::regex calls itself for each repetition, and a header of blanks would exhaust the stack.
  std::smatch type, order, shape;
  if (!std::regex_search(text, type, std::regex(R"('descr': {0,4}'([^']{1,20})')")) ||
      !std::regex_search(text, shape, std::regex(R"('shape': {0,4}\(([0-9, ]{0,700})\))")))
    return header;
  header.is_fortran = std::regex_search(text, order, std::regex(R"('fortran_order': {0,4}True)"));
  const std::string extents = shape[1].str();
  static const std::regex extent("[0-9]+");
  for (std::sregex_iterator each(extents.begin(), extents.end(), extent), end; each != end; ++each) {
    require(each->length() <= std::numeric_limits<std::int64_t>::digits10, "{} has an impossible shape ({})", name,
            extents);
    header.shape.push_back(std::stoll(each->str()));
  }
  require(header.shape.size() <= kMostNpyAxes, "{} has {} dimensions, but at most {} are expected", name,
          header.shape.size(), kMostNpyAxes);
  header.type = type[1].str();
  return header;
}

}  // namespace distdl::data
