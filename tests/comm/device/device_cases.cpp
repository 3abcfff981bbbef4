// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/device/device_cases.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace distdl::comm {
namespace {

using Bytes = std::vector<std::byte>;

void await(Accelerator& device, Accelerator::Mark mark) {
  while (!device.reached(mark)) std::this_thread::yield();
}

/// Memory of the device, filled.
class DeviceBytes {
 public:
  DeviceBytes(Accelerator& device, const Bytes& bytes) : device_(device), memory_(device.allocate(bytes.size())) {
    write(device, memory_.data(), bytes);
  }
  Vector vector(DataType type) const { return {memory_.data(), memory_.bytes() / size_of(type), type}; }
  Bytes get() const { return read(device_, memory_.data(), memory_.bytes()); }

 private:
  Accelerator& device_;
  tensor::Buffer memory_;
};

Vector on_host(Bytes& bytes, DataType type) {
  return {bytes.data(), bytes.size() / size_of(type), type};
}

/// `call(values, result)` on the host and on the device.
void compare(Accelerator& device, DataType type, const Bytes& values, std::size_t result_bytes, const char* what,
             const std::function<Request(Vector, Vector)>& call) {
  Bytes expected_values = values, expected(result_bytes, std::byte{7});
  const DeviceBytes actual_values(device, values), actual(device, expected);
  call(on_host(expected_values, type), on_host(expected, type)).wait();
  call(actual_values.vector(type), actual.vector(type)).wait();
  const Bytes got = actual.get();
  const auto differs = std::mismatch(got.begin(), got.end(), expected.begin()).first;
  EXPECT_EQ(differs - got.begin(), got.end() - got.begin()) << what << " of " << name_of(type) << ": first wrong byte";
  EXPECT_EQ(actual_values.get(), values) << what << " changed its input";
}

void compare_in_place(Accelerator& device, DataType type, const Bytes& values, const char* what,
                      const std::function<Request(Vector)>& call) {
  Bytes expected = values;
  const DeviceBytes actual(device, values);
  call(on_host(expected, type)).wait();
  call(actual.vector(type)).wait();
  EXPECT_TRUE(actual.get() == expected) << what << " of " << name_of(type) << " in place";
}

Vector part(Vector whole, std::size_t first, std::size_t count) {
  return {static_cast<std::byte*>(whole.data()) + first * size_of(whole.type()), count, whole.type()};
}

/// Uneven, and some are none.
std::vector<std::size_t> uneven(int size, std::size_t total) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(size));
  for (std::size_t r = 0, left = total; r < counts.size(); ++r) {
    counts[r] = r + 1 == counts.size() ? left : r % 3 == 1 ? 0 : left / 2;
    left -= counts[r];
  }
  return counts;
}

}  // namespace

Bytes read(Accelerator& device, const void* from, std::size_t bytes) {
  Bytes host(bytes);
  if (bytes > 0) await(device, device.copy_to_host(host.data(), from, bytes));
  return host;
}

void write(Accelerator& device, void* to, const Bytes& bytes) {
  if (!bytes.empty()) device.copy_from_host(to, bytes.data(), bytes.size());
  await(device, device.mark());
}

Bytes random_values(DataType type, std::size_t count, unsigned seed) {
  Bytes bytes(count * size_of(type));
  std::mt19937_64 random(seed);
  const auto fill = [&](auto make) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = make();
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  };
  const auto real = [&] {
    return std::ldexp(static_cast<double>(static_cast<std::int32_t>(random())), -static_cast<int>(random() % 40));
  };
  switch (type) {
    case DataType::float32:
      fill([&] { return static_cast<float>(real()); });
      break;
    case DataType::float64:
      fill(real);
      break;
    case DataType::float16:
    case DataType::bfloat16:
      fill([&] { return static_cast<std::uint16_t>(random() & 0xB7FF); });  // half the exponents: all finite
      break;
    default:
      fill([&] { return static_cast<std::uint8_t>(random()); });
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
  return bytes;
}

void check_sums_on_device(Communicator& communicator, Accelerator& device, std::size_t count, DataType type,
                          std::span<const Reduction> reductions) {
  const int size = communicator.size();
  const auto self = static_cast<unsigned>(communicator.rank().value);
  const Bytes values = random_values(type, count, 100 + self);
  const std::size_t bytes = values.size();
  for (const Reduction reduction : reductions) {
    if (reduction == Reduction::average && !is_floating(type)) continue;
    CallOptions options;
    options.reduction = reduction;
    compare(device, type, values, bytes, "all-reduce",
            [&](Vector from, Vector to) { return communicator.all_reduce(from, to, options); });
    compare_in_place(device, type, values, "all-reduce",
                     [&](Vector both) { return communicator.all_reduce(both, options); });
    const Rank root(size - 1);
    compare(device, type, values, communicator.rank() == root ? bytes : 0, "reduce",
            [&](Vector from, Vector to) { return communicator.reduce(from, to, root, options); });
    const auto counts = uneven(size, count);
    compare(device, type, values, counts[self] * size_of(type), "reduce-scatter",
            [&](Vector from, Vector to) { return communicator.reduce_scatter(from, to, counts, options); });
  }
}

void check_moves_on_device(Communicator& communicator, Accelerator& device, std::size_t count) {
  constexpr DataType type = DataType::int32;
  const int size = communicator.size();
  const auto self = static_cast<std::size_t>(communicator.rank().value);
  const Bytes values = random_values(type, count, 200 + static_cast<unsigned>(self));
  const Rank root(size / 2);
  compare_in_place(device, type, values, "broadcast", [&](Vector both) { return communicator.broadcast(both, root); });
  const auto counts = uneven(size, count);
  const Bytes own = random_values(type, counts[self], 300 + static_cast<unsigned>(self));
  compare(device, type, own, values.size(), "all-gather",
          [&](Vector from, Vector to) { return communicator.all_gather(from, to, counts); });
  const std::size_t before = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(self), 0UL);
  compare_in_place(device, type, values, "all-gather", [&](Vector both) {
    return communicator.all_gather(part(both, before, counts[self]), both, counts);
  });
  compare(device, type, own, communicator.rank() == root ? values.size() : 0, "gather",
          [&](Vector from, Vector to) { return communicator.gather(from, to, root, counts); });
  compare(device, type, communicator.rank() == root ? values : Bytes(), own.size(), "scatter",
          [&](Vector from, Vector to) { return communicator.scatter(from, to, root, counts); });
  const std::size_t each = count / static_cast<std::size_t>(size);
  const Bytes all = random_values(type, each * static_cast<std::size_t>(size), 400 + static_cast<unsigned>(self));
  compare(device, type, all, all.size(), "all-to-all",
          [&](Vector from, Vector to) { return communicator.all_to_all(from, to); });
}

void check_leaves_on_device(Communicator& communicator, Accelerator& device, std::size_t count, int leaves) {
  constexpr DataType type = DataType::float32;
  const int size = communicator.size();
  Leaves shares{leaves, {}};
  for (int r = 0; r < size; ++r)
    shares.ranges.push_back({leaves * r / size, leaves * (r + 1) / size - leaves * r / size});
  const auto nodes = cover(shares.ranges[static_cast<std::size_t>(communicator.rank().value)], leaves);
  std::vector<Bytes> partials;
  std::vector<std::unique_ptr<DeviceBytes>> on_device;
  std::vector<ConstVector> host_vectors, device_vectors;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    partials.push_back(random_values(type, count, 500 + static_cast<unsigned>(nodes[i].level * 64 + nodes[i].index)));
  for (Bytes& partial : partials) {
    on_device.push_back(std::make_unique<DeviceBytes>(device, partial));
    device_vectors.emplace_back(on_device.back()->vector(type));
    host_vectors.emplace_back(on_host(partial, type));
  }
  Bytes expected(count * size_of(type));
  const DeviceBytes actual(device, expected);
  communicator.all_reduce(shares, device_vectors, actual.vector(type)).wait();
  communicator.all_reduce(shares, host_vectors, on_host(expected, type)).wait();
  EXPECT_TRUE(actual.get() == expected) << leaves << " leaves";
  const auto counts = uneven(size, count);
  const auto self = static_cast<std::size_t>(communicator.rank().value);
  const std::size_t first = std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(self), 0UL);
  const DeviceBytes slice(device, Bytes(counts[self] * size_of(type)));
  communicator.reduce_scatter(shares, device_vectors, slice.vector(type), counts).wait();
  const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first * size_of(type));
  EXPECT_TRUE(slice.get() == Bytes(begin, begin + static_cast<std::ptrdiff_t>(counts[self] * size_of(type))))
      << "a slice over " << leaves << " leaves";
}

}  // namespace distdl::comm
