// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <distdl/app/bench/bench_comm.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
constexpr std::size_t kLargest = std::size_t{1} << 36;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t first = 0;
  for (auto end = text.find(separator); end != std::string::npos; end = text.find(separator, first)) {
    parts.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  parts.push_back(text.substr(first));
  return parts;
}

std::size_t size_from(const std::string& text, const std::string& all) {
  std::size_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, number);
  bool good = error == std::errc{} && number <= kLargest;
  if (good && rest != end) {
    static constexpr std::string_view kUnits = "KMG";
    const auto unit = kUnits.find(static_cast<char>(*rest & ~0x20));
    const std::string_view tail(rest + 1, static_cast<std::size_t>(end - rest - 1));
    good = unit != std::string_view::npos && (tail.empty() || tail == "B" || tail == "iB");
    if (good) number <<= 10 * (unit + 1);
  }
  require<UsageError>(good && number >= 1 && number <= kLargest,
                      "--sizes {}: \"{}\" is not a size; write 8, 64K, 1M, ranges such as 1K:256M or 1K:256M:4, with "
                      "commas between them",
                      all, text);
  return number;
}
}  // namespace

std::vector<std::size_t> sizes_from(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (const auto& part : split(text, ',')) {
    const auto words = split(part, ':');
    require<UsageError>(words.size() <= 3, "--sizes {}: \"{}\" has too many colons", text, part);
    const auto low = size_from(words[0], text);
    const auto high = words.size() > 1 ? size_from(words[1], text) : low;
    const auto step = words.size() > 2 ? size_from(words[2], text) : 2;
    require<UsageError>(low <= high && step >= 2, "--sizes {}: \"{}\" is an empty range", text, part);
    for (auto size = low; size <= high; size *= step) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace distdl::app
