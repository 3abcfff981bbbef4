// SPDX-License-Identifier: Apache-2.0
#include "tests/observe/export/event_file.hpp"

#include <cstring>
#include <fstream>
#include <set>
#include <stdexcept>

namespace distdl::observe {
namespace {
std::uint64_t number_at(std::string_view bytes, int size) {
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes.at(static_cast<std::size_t>(i)));
  return value;
}

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/// Bit by bit.
std::uint32_t masked_checksum(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78 : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

void check(std::string_view bytes, std::string_view sum) {
  if (masked_checksum(bytes) != number_at(sum, 4)) throw std::runtime_error("a wrong checksum");
}

std::string one(const std::multimap<int, std::string>& fields, int field) {
  const auto found = fields.find(field);
  return found == fields.end() ? "" : found->second;
}
}  // namespace

std::multimap<int, std::string> wire_fields(std::string_view bytes) {
  std::multimap<int, std::string> fields;
  while (!bytes.empty()) {
    const auto key = take_varint(bytes);
    std::string value;
    if ((key & 7) == 0) {
      value = std::to_string(take_varint(bytes));
    } else {
      const std::size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : take_varint(bytes);
      if (size > bytes.size()) throw std::runtime_error("a field is longer than its message");
      value = bytes.substr(0, size);
      bytes.remove_prefix(size);
    }
    fields.emplace(static_cast<int>(key >> 3), value);
  }
  return fields;
}

EventFolder::EventFolder(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path());
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    for (std::string_view rest = all; rest.size() >= 16;) {
      check(rest.substr(0, 8), rest.substr(8, 4));
      const auto size = number_at(rest, 8);
      if (size > rest.size() - 16) break;
      check(rest.substr(12, size), rest.substr(12 + size, 4));
      const auto event = wire_fields(rest.substr(12, size));
      rest.remove_prefix(16 + size);
      const auto text = one(event, 2);
      const std::int64_t step = text.empty() ? 0 : std::stoll(text);
      if (event.contains(7))  // SessionLog START
        for (auto& [tag, values] : scalars)
          std::erase_if(values, [&](const auto& value) { return value.first >= step; });
      const auto summary = wire_fields(one(event, 5));
      for (auto [value, end] = summary.equal_range(1); value != end; ++value) {
        const auto parts = wire_fields(value->second);
        if (!parts.contains(2)) {
          plugins.push_back(one(parts, 1));
          continue;
        }
        float number = 0;
        std::memcpy(&number, one(parts, 2).data(), sizeof number);
        scalars[one(parts, 1)].emplace_back(step, number);
      }
    }
  }
}

}  // namespace distdl::observe
