// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/train/bit_flip.hpp>

namespace distdl::train {
namespace {
std::vector<std::string_view> fields_of(std::string_view text) {
  std::vector<std::string_view> fields;
  for (auto end = text.find(':'); end != std::string_view::npos; end = text.find(':')) {
    fields.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  fields.push_back(text);
  return fields;
}

bool read_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0;
}
}  // namespace

std::optional<BitFlip> bit_flip_from(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const auto fields = fields_of(*text);
  BitFlip flip;
  std::int64_t rank = 0;
  bool valid = fields.size() == 3 || fields.size() == 4;
  constexpr std::array<std::string_view, 3> kPlaces{"parameters", "gradients", "results"};
  const auto place = std::ranges::find(kPlaces, fields[0]) - kPlaces.begin();
  valid = valid && place < std::ssize(kPlaces) && read_number(fields[1], rank) &&
          read_number(fields[2], flip.step.value) && (fields.size() == 3 || read_number(fields[3], flip.steps));
  require(valid, "the bit to flip is \"{}\", but must be like \"parameters:1:30\" or \"results:1:30:5\"", *text);
  flip.rank = Rank(static_cast<int>(rank));
  flip.where = static_cast<BitFlip::Where>(place);
  return flip;
}

void flip_bit(kernels::Backend& backend, float* value) {
  constexpr std::uint32_t kBit = 1U << 3;
  float copy = 0;
  backend.copy_to_host(&copy, value, sizeof copy);
  copy = std::bit_cast<float>(std::bit_cast<std::uint32_t>(copy) ^ kBit);
  backend.copy_from_host(value, &copy, sizeof copy);
}

}  // namespace distdl::train
