// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/saver.hpp>

namespace distdl::checkpoint {
using namespace std::chrono_literals;

/// A gate that writing stops at: before the first file is opened for writing while it is closed.
class GatedFileSystem final : public FileSystem {
 public:
  void shut() { open_ = false; }
  void lift() { open_ = true; }
  int arrived() const { return arrived_; }
  ssize_t pwrite(int fd, const std::byte* data, std::size_t bytes, off_t offset) override {
    if (!open_) ++arrived_;
    while (!open_) std::this_thread::sleep_for(1ms);
    if (number_ != 0) return errno = number_, -1;
    return FileSystem::pwrite(fd, data, bytes, offset);
  }
  void fail_with(int number) { number_ = number; }

 private:
  std::atomic<bool> open_{true};
  std::atomic<int> arrived_{0}, number_{0};
};

inline std::string run_name() {
  return "saver_" + std::to_string(::getpid());
}

/// What a training thread on one of several ranks has.
struct Here {
  Group& group;
  Store& store;
  Saver& saver;
};

/// Runs `work` on `size` ranks that are threads, each with a Saver; what each threw.
inline std::vector<std::string> on_ranks(int size, const std::filesystem::path& root, FileSystem& files,
                                         Options options, const std::function<void(Here)>& work) {
  ThreadGroups training(size), writing(size);
  return training.run([&](Group& group) {
    Store store(root, options, files);
    store.take(group, owner_called("test"));
    Saver saver(store, group, writing.member(group.rank()), {run_name(), true});
    work({group, store, saver});
  });
}

inline Sample finite_sample(std::uint64_t seed, std::int64_t rows = 40) {
  Sample sample = make_sample(seed, rows);
  for (auto& tensor : sample)
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
      if (tensor::size_of(tensor.entry.dtype) > 1) tensor.bytes[i] &= std::byte{0x3F};  // no exponent of ones
  return sample;
}

}  // namespace distdl::checkpoint
