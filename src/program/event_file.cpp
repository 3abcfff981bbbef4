// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include <distdl/base/checksum.hpp>
#include <distdl/program/event_file.hpp>

namespace distdl::program {
namespace {
static_assert(std::endian::native == std::endian::little, "the numbers of these files are little-endian");

template <class Number>
Number number_at(std::string_view bytes, std::size_t place) {
  Number number{};
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t sum = crc32c(std::as_bytes(std::span(bytes)));
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

/// A field of a message of Protocol Buffers (https://protobuf.dev/programming-guides/encoding): a number, or bytes.
struct Field {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes = {};
};

/// Takes fields from the front of a message.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}
  /// Nothing at the end, and where the bytes are no field.
  std::optional<Field> next() {
    const auto key = rest_.empty() ? std::nullopt : varint();
    if (!key) return std::nullopt;
    Field field{.number = *key >> 3};
    switch (*key & 7) {
      case 0:
        if (const auto value = varint()) {
          field.value = *value;
          return field;
        }
        return std::nullopt;
      case 1:
        return fixed<std::uint64_t>(field);
      case 2: {
        const auto length = varint();
        if (!length || *length > rest_.size()) return std::nullopt;
        field.bytes = rest_.substr(0, *length);
        rest_.remove_prefix(*length);
        return field;
      }
      case 5:
        return fixed<std::uint32_t>(field);
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  template <class Number>
  std::optional<Field> fixed(Field field) {
    if (rest_.size() < sizeof(Number)) return std::nullopt;
    field.value = number_at<Number>(rest_, 0);
    rest_.remove_prefix(sizeof(Number));
    return field;
  }

  std::string_view rest_;
};

/// A Summary.Value: tag (1) and simple_value (2).
std::optional<NamedValue> scalar_of(std::string_view message) {
  constexpr std::size_t kLongestTag = 200;
  NamedValue scalar;
  bool has_value = false;
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 1) scalar.first = std::string(field->bytes.substr(0, kLongestTag));
    if (field->number != 2) continue;
    scalar.second = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(field->value)));
    has_value = true;
  }
  std::ranges::replace(scalar.first, '/', '_');
  return has_value && !scalar.first.empty() ? std::optional(scalar) : std::nullopt;
}
}  // namespace

std::optional<EventScalars> scalars_of(std::string_view message) {
  constexpr std::size_t kMost = 1000;
  EventScalars found;
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == 2) found.step = static_cast<std::int64_t>(field->value);
    if (field->number != 5) continue;  // the summary
    Fields values(field->bytes);
    while (const auto value = values.next())
      if (value->number == 1 && found.values.size() < kMost)
        if (auto scalar = scalar_of(value->bytes)) found.values.push_back(*std::move(scalar));
  }
  return found.values.empty() ? std::nullopt : std::optional(std::move(found));
}

std::optional<std::uint64_t> read_events(std::string_view bytes,
                                         const std::function<void(const EventScalars&)>& visit) {
  constexpr std::size_t kHead = sizeof(std::uint64_t) + sizeof(std::uint32_t), kFoot = sizeof(std::uint32_t);
  std::size_t done = 0;
  while (bytes.size() - done >= kHead) {
    const auto rest = bytes.substr(done);
    const auto length = number_at<std::uint64_t>(rest, 0);
    const auto sum = number_at<std::uint32_t>(rest, sizeof length);
    if (sum != masked_checksum(rest.substr(0, sizeof length))) return std::nullopt;
    if (length > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
    if (length > kLargestEvent) return done + kHead + length + kFoot;
    if (rest.size() < kHead + length + kFoot) break;
    const auto data = rest.substr(kHead, length);
    const bool is_sound = number_at<std::uint32_t>(rest, kHead + length) == masked_checksum(data);
    if (const auto scalars = is_sound ? scalars_of(data) : std::nullopt) visit(*scalars);
    done += kHead + length + kFoot;
  }
  return done;
}

}  // namespace distdl::program
