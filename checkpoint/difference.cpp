// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include <distdl/checkpoint/difference.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/tensor_reader.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::int64_t kSlabElements = 1 << 20;

/// Returns whether both are finite.
bool compare_values(ChangedTensor& changed, double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  const double distance = std::abs(a - b), size = std::max(std::abs(a), std::abs(b));
  changed.absolute = std::max(changed.absolute, distance);
  if (size > 0) changed.relative = std::max(changed.relative, distance / size);  // -0 and 0 differ in bytes only
  return true;
}

void compare_bytes(ChangedTensor& changed, const std::vector<std::byte>& first, const std::vector<std::byte>& second) {
  if (first == second) return;
  const auto parts = tensor::parts_of(changed.entry.dtype);
  const std::size_t element = parts.bytes();
  for (std::size_t at = 0; at < first.size(); at += element) {
    if (std::memcmp(&first[at], &second[at], element) == 0) continue;
    ++changed.different;
    bool is_finite = true;
    for (std::size_t part = at; part < at + element; part += parts.bytes() / parts.count)
      is_finite = compare_values(changed, tensor::value_of(parts.type, &first[part]),
                                 tensor::value_of(parts.type, &second[part])) &&
                  is_finite;
    changed.not_finite += !is_finite;
  }
}

ChangedTensor compare_tensor(TensorReader& first, TensorReader& second, const StoredTensor& a, const StoredTensor& b) {
  ChangedTensor changed{a.entry};
  changed.elements = static_cast<std::uint64_t>(tensor::element_count(a.entry.shape));
  std::vector<std::byte> bytes[2];
  for_each_slab(a.entry.shape, kSlabElements, [&](const tensor::Box& box) {
    auto count = static_cast<std::size_t>(tensor::element_count(box.extent)) * tensor::size_of(a.entry.dtype);
    for (auto& each : bytes) each.resize(count);
    first.read(a, box, bytes[0].data());
    second.read(b, box, bytes[1].data());
    compare_bytes(changed, bytes[0], bytes[1]);
  });
  return changed;
}

void compare_state(Difference& difference, const State& first, const State& second) {
  for (const auto& [key, value] : first)
    if (auto found = second.find(key); found == second.end())
      difference.state_removed.push_back(key);
    else if (found->second != value)
      difference.state_changed.push_back(key);
  for (const auto& [key, value] : second)
    if (!first.contains(key)) difference.state_added.push_back(key);
}
}  // namespace

Difference compare(const Summary& first, const Summary& second) {
  TensorReader a(real_file_system(), first.folder), b(real_file_system(), second.folder);
  Difference difference;
  for (const StoredTensor& stored : a.manifest().tensors) {
    const StoredTensor* other = b.find(stored.entry.name);
    if (!other) {
      difference.removed.push_back(stored.entry);
    } else if (other->entry != stored.entry) {
      difference.reshaped.push_back({stored.entry, other->entry});
    } else if (auto changed = compare_tensor(a, b, stored, *other); changed.different > 0) {
      difference.changed.push_back(std::move(changed));
    } else {
      ++difference.equal;
    }
  }
  for (const StoredTensor& stored : b.manifest().tensors)
    if (!a.find(stored.entry.name)) difference.added.push_back(stored.entry);
  compare_state(difference, a.manifest().state, b.manifest().state);
  return difference;
}

}  // namespace distdl::checkpoint
