// SPDX-License-Identifier: Apache-2.0
// checkpoint_restore_memory DIR [MIB]: three ranks save MIB of tensors, two processes restore half of them each. Prints
// the most memory that a restoring process had, and fails where that is more than 1.15 times its share plus 256 MiB.
#include <cstdio>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/checkpoint/sample.hpp"

namespace distdl::checkpoint {
namespace {
constexpr int kWriters = 3, kReaders = 2;
constexpr std::int64_t kRow = 1 << 18;  // elements of a mebibyte of f32

/// Four matrices that make up `mebibytes`, of which rank `rank` has some rows.
template <class Part>
std::vector<Part> parts(std::int64_t mebibytes, int rank, int size, std::vector<std::vector<std::byte>>& memory) {
  std::vector<Part> made;
  for (int i = 0; i < 4; ++i) {
    tensor::Shape shape{mebibytes / 4, kRow};
    tensor::Box box = cut(shape, rank, size, false);
    memory.emplace_back(static_cast<std::size_t>(tensor::element_count(box.extent)) * 4);
    Part part;
    part.name = "parameter/" + std::to_string(i);
    part.dtype = tensor::DataType::float32, part.shape = shape, part.box = box, part.bytes = memory.back().data();
    made.push_back(std::move(part));
  }
  return made;
}

double peak_mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      double kibibytes = 0;
      status >> kibibytes;
      return kibibytes / 1024;
    }
  return -1;
}

void save(const std::filesystem::path& root, std::int64_t mebibytes) {
  auto errors = ThreadGroups(kWriters).run([&](Group& group) {
    std::vector<std::vector<std::byte>> memory;
    auto slices = parts<Slice>(mebibytes, group.rank(), kWriters, memory);
    for (auto& bytes : memory) std::memset(bytes.data(), group.rank() + 1, bytes.size());
    Store store(root, {});
    store.take(group, owner_called("memory"));
    store.save(group, Step(1), slices, {});
  });
  if (!all_empty(errors)) throw std::runtime_error(errors[0]);
}

bool restore(const std::filesystem::path& root, std::int64_t mebibytes, int rank) {
  std::vector<std::vector<std::byte>> memory;
  auto targets = parts<Target>(mebibytes, rank, kReaders, memory);
  SingleProcessGroup alone;
  Store store(root, {});
  auto found = store.newest_valid(alone);
  if (!found) throw std::runtime_error("nothing is found");
  store.read(*found, targets);
  double share = double(mebibytes) / kReaders, limit = 1.15 * share + 256, peak = peak_mebibytes();
  std::printf("rank %d of %d: share %.0f MiB, peak %.0f MiB, limit %.0f MiB\n", rank, kReaders, share, peak, limit);
  return peak > 0 && peak <= limit;
}

/// In a process of its own, whose memory nobody else has used.
template <class Work>
pid_t start(Work&& work) {
  std::fflush(stdout);
  pid_t child = ::fork();
  if (child != 0) return child;
  bool done = false;
  try {
    done = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fflush(stdout);
  ::_exit(done ? 0 : 1);
}

bool succeeded(pid_t child) {
  int status = 1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}
}  // namespace
}  // namespace distdl::checkpoint

int main(int count, char** arguments) {
  using namespace distdl::checkpoint;
  if (count < 2) return std::fprintf(stderr, "usage: checkpoint_restore_memory DIR [MIB]\n"), 64;
  std::filesystem::path root = std::filesystem::path(arguments[1]) / "distdl-restore-memory";
  std::int64_t mebibytes = count > 2 ? std::atoll(arguments[2]) : 2048;
  bool well = succeeded(start([&] { return save(root, mebibytes), true; }));
  pid_t readers[kReaders] = {};
  for (int rank = 0; rank < kReaders; ++rank) readers[rank] = start([&] { return restore(root, mebibytes, rank); });
  for (pid_t reader : readers) well &= succeeded(reader);
  std::filesystem::remove_all(root);
  return well ? 0 : 1;
}
