// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint::proof {

using InodeId = int;

/// What a file or folder holds.
struct Inode {
  bool folder = false;
  std::string bytes;                       ///< of a file
  std::map<std::string, InodeId> entries;  ///< of a folder
};
/// A tree by inode, so that a folder that is renamed stays the same folder. The root is inode 0.
using Tree = std::map<InodeId, Inode>;

/// One change that a program asked for, in the order of the calls.
struct Operation {
  enum class Kind { write, extend, truncate, sync, create, make_folder, remove, rename, exchange, mark };
  Kind kind = Kind::mark;
  InodeId inode = 0;         ///< of the file or folder written, synced, created; of the folder that is renamed
  InodeId folder = 0;        ///< where `name` is
  std::string name = {};     ///< entry; for a mark its text
  InodeId other_folder = 0;  ///< renames: where to
  std::string other_name = {};
  std::uint64_t offset = 0;  ///< of a write; the size for extend
  std::string bytes = {};
};

struct Recording {
  Tree start;  ///< what was on disk, durable, before the first operation
  std::vector<Operation> operations;
  Tree end;  ///< as the program sees it
};

/// Copies what lies under `root` into a tree.
Tree read_tree(const std::filesystem::path& root);
/// Applies one operation as a program sees it. A mark or sync does nothing.
void replay(Tree& tree, const Operation& operation);

/// Does everything for real and writes down every change below `root`. For many threads at once.
/// Files that HDF5 writes by itself are compared before and after: what changed counts as writes that nobody synced.
class RecordingFileSystem final : public FileSystem {
 public:
  explicit RecordingFileSystem(const std::filesystem::path& root);

  /// Notes that something happened outside of the disk: a save began, a save was acknowledged.
  void mark(const std::string& text);
  Recording recording() const;

  int open(const char* path, int flags, mode_t mode) override;
  int close(int descriptor) override;
  ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) override;
  int fsync(int descriptor) override;
  int fallocate(int descriptor, off_t offset, off_t bytes) override;
  int mkdir(const char* path, mode_t mode) override;
  int rename(const char* from, const char* to, unsigned flags) override;
  int unlink(const char* path) override;
  int rmdir(const char* path) override;
  int before_hdf5(const char* path) override;

 private:
  struct Place {
    InodeId folder = -1;  ///< -1: outside of the root
    std::string name;
  };
  struct Open {
    InodeId inode;
    bool appends;  ///< O_APPEND: pwrite's offset does not count
  };
  Place place_of(const char* path) const;
  InodeId inode_at(const Place& place) const;
  void note(Operation operation);
  void adopt_hdf5_file(const std::string& path);
  int removed(const char* path, int result);

  std::string root_;
  mutable std::mutex mutex_;
  Recording recording_;
  std::map<int, Open> open_;    ///< by descriptor
  std::set<std::string> hdf5_;  ///< files that HDF5 may have written since we last looked
  InodeId next_ = 0;
};

}  // namespace distdl::checkpoint::proof
