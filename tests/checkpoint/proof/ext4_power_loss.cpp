// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/proof/ext4.hpp"
#include "tests/checkpoint/proof/proofs.hpp"
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint::proof {
namespace {
namespace fs = std::filesystem;

constexpr int kMebibytes = 24;

struct Cut {
  int at = -1;  ///< operation before, or in, which the power goes
  bool torn = false;
  Ext4::Journal journal = Ext4::Journal::lost;
};

/// The real file system until the power goes. Torn: half of a write is on the disk, the data but not the journal of a
/// sync; anything else is done, and its caller never knows.
class DyingFileSystem final : public FileSystem {
 public:
  DyingFileSystem(Ext4& disk, Cut cut) : disk_(disk), cut_(cut) {}
  int operations() const { return count_; }

  int open(const char* path, int flags, mode_t mode) override {
    return live([&] { return FileSystem::open(path, flags, mode); });
  }
  ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) override {
    return live([&] { return FileSystem::pwrite(descriptor, data, bytes, offset); },
                [&] {
                  auto half = FileSystem::pwrite(descriptor, data, half_of(bytes), offset);
                  to_disk(descriptor);
                  return half;
                });
  }
  int fsync(int descriptor) override {
    return live([&] { return FileSystem::fsync(descriptor); }, [&] { return to_disk(descriptor); });
  }
  int fallocate(int descriptor, off_t offset, off_t bytes) override {
    return live([&] { return FileSystem::fallocate(descriptor, offset, bytes); });
  }
  int mkdir(const char* path, mode_t mode) override {
    return live([&] { return FileSystem::mkdir(path, mode); });
  }
  int rename(const char* from, const char* to, unsigned flags) override {
    return live([&] { return FileSystem::rename(from, to, flags); });
  }
  int unlink(const char* path) override {
    return live([&] { return FileSystem::unlink(path); });
  }
  int rmdir(const char* path) override {
    return live([&] { return FileSystem::rmdir(path); });
  }
  int before_hdf5(const char* path) override {
    return live([&] { return FileSystem::before_hdf5(path); });
  }

 private:
  static int to_disk(int descriptor) {
    return ::sync_file_range(descriptor, 0, 0,
                             SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }

  template <class Call>
  auto live(Call&& call) -> decltype(call()) {
    return live(call, call);
  }
  template <class Call, class Torn>
  auto live(Call&& call, Torn&& torn) -> decltype(call()) {
    {
      std::lock_guard lock(mutex_);
      if (count_++ == cut_.at) {
        if (cut_.torn) torn();
        disk_.cut_power(cut_.journal);
        errno = EIO;
        return -1;
      }
    }
    return call();
  }

  Ext4& disk_;
  Cut cut_;
  std::mutex mutex_;
  int count_ = 0;
};

/// Most of a disk is holes.
void copy_sparse(const fs::path& from, const fs::path& to) {
  OpenFile in(real_file_system(), from, OpenFile::Mode::read), out(real_file_system(), to, OpenFile::Mode::create);
  std::vector<std::byte> block(16 << 10);
  for (std::uint64_t at = 0; at < in.size(); at += block.size()) {
    in.read_at(block, at);
    bool zero = std::all_of(block.begin(), block.end(), [](std::byte byte) { return byte == std::byte{0}; });
    if (!zero || at + block.size() == in.size()) out.write_at(block, at);
  }
}

struct Bench {
  TemporaryFolder folder;
  fs::path blank = folder.path() / "blank", image = folder.path() / "image", mount = folder.path() / "mount";
  fs::path root = mount / "checkpoints";
  std::string options;
};

/// Tells the story until the power goes, then judges what the disk holds. Returns whether it went.
bool tell_without_power(Bench& bench, const Story& story, const Cut& cut, ProofResult& verdict) {
  fs::remove(bench.image);
  copy_sparse(bench.blank, bench.image);
  Promise promise = story.start;
  int operations = 0;
  {
    Ext4 disk(bench.image, bench.mount, bench.options);
    DyingFileSystem files(disk, cut);
    tell(story, bench.root, files, [&](const std::string& mark) { note(promise, mark); });
    operations = files.operations();
  }
  Ext4 disk(bench.image, bench.mount, bench.options);
  verdict.add(judge(bench.root, promise),
              fmt::format("{}, ext4 {}: power lost {} operation {}, journal {}", story.name, bench.options,
                          cut.torn ? "in" : "before", cut.at, cut.journal == Ext4::Journal::lost ? "lost" : "written"));
  return operations > cut.at;
}
}  // namespace

ProofResult prove_ext4_power_loss(const Story& story, const Effort& effort) {
  ProofResult verdict;
  // The second gives the least; the first is what machines have.
  for (const char* options : {"commit=600,noinit_itable", "commit=600,noinit_itable,data=writeback,noauto_da_alloc"}) {
    if (!effort.thorough && options == std::string_view("commit=600,noinit_itable")) continue;
    Bench bench;
    bench.options = options;
    fs::create_directory(bench.mount);
    Ext4::make(bench.blank, kMebibytes);
    {
      Ext4 disk(bench.blank, bench.mount, bench.options);
      fs::create_directory(bench.root);
      story.before(bench.root);
    }
    for (bool torn : {false, true})
      for (Ext4::Journal journal : {Ext4::Journal::lost, Ext4::Journal::written}) {
        Cut cut{0, torn, journal};
        while (tell_without_power(bench, story, cut, verdict)) {
          cut.at += effort.stride, ++verdict.cases;
          if (effort.stop_at_first && !verdict.broken.empty()) return verdict;
        }
      }
  }
  return verdict;
}

}  // namespace distdl::checkpoint::proof
