// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "tests/checkpoint/thread_group.hpp"
#include <distdl/base/env.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/checkpoint/summary.hpp>

// A little model to save, and ways to cut it among ranks.
namespace distdl::checkpoint {

/// A folder of its own, removed at the end; in memory where possible, since these tests sync thousands of times.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(bool memory = true) {
    memory = memory && ::access("/dev/shm", W_OK) == 0;
    // tests/contained removes what has the name of its folder.
    const std::string tests = env("TEST_TMPDIR").value_or("/tmp/distdl");
    const std::string name = std::filesystem::path(tests).filename().string() + "-checkpoint-XXXXXX";
    std::string pattern = (std::filesystem::path(memory ? "/dev/shm" : "/tmp") / name).string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string slurp(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}
inline void spill(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

struct SampleTensor {
  TensorEntry entry;
  std::vector<std::byte> bytes;
};
using Sample = std::vector<SampleTensor>;

/// Tensors with random bytes that depend on the seed only, in name order; `rows` scales the largest.
inline Sample make_sample(std::uint64_t seed, std::int64_t rows = 40) {
  std::vector<TensorEntry> entries{{"momentum/conv1.weight", tensor::DataType::float32, {8, 3, 5, 5}},
                                   {"parameter/conv1.bias", tensor::DataType::float64, {7}},
                                   {"parameter/conv1.weight", tensor::DataType::float32, {8, 3, 5, 5}},
                                   {"parameter/embedding", tensor::DataType::bfloat16, {rows, 33}},
                                   {"parameter/empty", tensor::DataType::float32, {0, 4}},
                                   {"parameter/half", tensor::DataType::float16, {3, 2}},
                                   {"parameter/scale", tensor::DataType::float32, {}},
                                   {"rng", tensor::DataType::int64, {6}},
                                   {"small", tensor::DataType::byte, {11, 1, 2}}};
  Sample sample;
  for (auto& entry : entries) {
    auto bytes = static_cast<std::size_t>(tensor::element_count(entry.shape)) * tensor::size_of(entry.dtype);
    SampleTensor made{entry, std::vector<std::byte>(bytes)};
    for (std::size_t i = 0; i < bytes; i += sizeof(Philox::Block)) {
      Philox::Block block = Philox::block(seed, sample.size(), i);
      std::memcpy(made.bytes.data() + i, block.data(), std::min(sizeof(block), bytes - i));
    }
    sample.push_back(std::move(made));
  }
  return sample;
}

/// The same with few different bytes, so that whatever is not tiny compresses.
inline Sample make_compressible(std::uint64_t seed, std::int64_t rows = 40) {
  Sample sample = make_sample(seed, rows);
  for (SampleTensor& tensor : sample)
    for (std::byte& byte : tensor.bytes) byte &= std::byte{0x41};
  return sample;
}

/// Part `index` of `parts` of `extent`.
inline std::pair<std::int64_t, std::int64_t> part_of(std::int64_t extent, int index, int parts) {
  return {extent * index / parts, extent * (index + 1) / parts};
}

/// This rank's box: rows only, or a grid over two dimensions.
inline tensor::Box cut(const tensor::Shape& shape, int rank, int size, bool grid) {
  tensor::Box box = tensor::whole(shape);
  if (shape.empty()) {
    return box;  // the caller gives a scalar to one rank only
  }
  int columns = grid && shape.size() > 1 && size % 2 == 0 ? 2 : 1;
  auto set = [&](std::size_t d, std::pair<std::int64_t, std::int64_t> part) {
    box.offset[d] = part.first;
    box.extent[d] = part.second - part.first;
  };
  set(0, part_of(shape[0], rank / columns, size / columns));
  if (columns == 2) set(1, part_of(shape[1], rank % 2, 2));
  return box;
}

/// The elements of a box of a tensor, gathered one by one: slow, and independent of the code under test.
inline std::vector<std::byte> gather(const SampleTensor& from, const tensor::Box& box) {
  std::size_t element = tensor::size_of(from.entry.dtype);
  std::int64_t count = tensor::element_count(box.extent);
  std::vector<std::byte> out(static_cast<std::size_t>(count) * element);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, stride = 1, at = 0;
    for (std::size_t d = box.extent.size(); d-- > 0;) {
      at += (box.offset[d] + rest % box.extent[d]) * stride;
      rest /= box.extent[d];
      stride *= from.entry.shape[d];
    }
    std::memcpy(out.data() + static_cast<std::size_t>(i) * element,
                from.bytes.data() + static_cast<std::size_t>(at) * element, element);
  }
  return out;
}

/// One rank's share of a sample, with the memory it needs.
struct Share {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Slice> slices;
};

inline Share share_of(const Sample& sample, int rank, int size, bool grid = false) {
  Share share;
  for (const SampleTensor& tensor : sample) {
    if (tensor.entry.shape.empty() && rank != size - 1) continue;
    tensor::Box box = cut(tensor.entry.shape, rank, size, grid);
    share.memory.push_back(gather(tensor, box));
    share.slices.push_back(
        {tensor.entry.name, tensor.entry.dtype, tensor.entry.shape, box, share.memory.back().data()});
  }
  return share;
}

/// Memory to restore a whole sample into.
struct RestoreMemory {
  std::vector<std::vector<std::byte>> memory;
  std::vector<Target> targets;

  explicit RestoreMemory(const Sample& sample) {
    for (const auto& [entry, bytes] : sample) {
      memory.emplace_back(bytes.size());
      targets.push_back({entry.name, entry.dtype, entry.shape, tensor::whole(entry.shape), memory.back().data()});
    }
  }
};

inline const State& sample_state() {
  static const State state{
      {"config", "[train]\nepochs = 8\n"}, {"data.cursor", "1234"}, {"raw", std::string("\xff\0\x80", 3)}};
  return state;
}

inline Owner owner_called(const std::string& nonce) {
  return {"42", 0, 1, nonce};
}

/// Reads a sample back, cut as asked, and compares; the empty text if all is well.
inline std::string compare(const Store& store, const Summary& summary, const Sample& sample, int size = 1,
                           bool grid = false, PageCache cache = PageCache::used) {
  for (int rank = 0; rank < size; ++rank) {
    Share share = share_of(sample, rank, size, grid);
    for (const Slice& slice : share.slices) {
      auto bytes = static_cast<std::size_t>(tensor::element_count(slice.box.extent)) * tensor::size_of(slice.dtype);
      std::vector<std::byte> found(bytes, std::byte{0xA5});
      Target target{slice.name, slice.dtype, slice.shape, slice.box, found.data()};
      store.read(summary, std::span(&target, 1), cache);
      if (bytes && std::memcmp(found.data(), slice.bytes, bytes) != 0) return slice.name + " differs";
    }
  }
  return summary.state == sample_state() ? "" : "state differs";
}

/// Saves a sample with `size` ranks as threads; what each rank threw. The folder must have been taken by `nonce`.
inline std::vector<std::string> save_as(const std::filesystem::path& root, int size, Step step, const Sample& sample,
                                        bool grid = false, Options options = {}) {
  return ThreadGroups(size).run([&](Group& group) {
    Store store(root, options);
    store.take(group, owner_called("test"));
    Share share = share_of(sample, group.rank(), size, grid);
    store.save(group, step, share.slices, sample_state());
  });
}

inline bool all_empty(const std::vector<std::string>& errors) {
  for (const auto& error : errors)
    if (!error.empty()) return false;
  return true;
}

inline void save_alone(Store& store, std::int64_t step, const Sample& sample) {
  SingleProcessGroup alone;
  store.save(alone, Step(step), share_of(sample, 0, 1).slices, sample_state());
}

/// What a restart would take.
inline Summary newest(Store& store) {
  SingleProcessGroup alone;
  auto found = store.newest_valid(alone);
  if (!found) throw std::runtime_error("no checkpoint");
  return *found;
}

inline std::set<std::int64_t> steps_in(const std::filesystem::path& root) {
  std::set<std::int64_t> steps;
  for (const auto& [step, folder] : step_folders(root)) steps.insert(step.value);
  return steps;
}

}  // namespace distdl::checkpoint
