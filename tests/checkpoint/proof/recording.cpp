// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/proof/recording.hpp"

#include <algorithm>
#include <stdexcept>

#include <fcntl.h>
#include <stdio.h>

#include "tests/checkpoint/sample.hpp"

namespace distdl::checkpoint::proof {
namespace {
namespace fs = std::filesystem;
using Kind = Operation::Kind;

void read_folder(Tree& tree, InodeId folder, const fs::path& path) {
  tree[folder].folder = true;
  for (const auto& entry : fs::directory_iterator(path)) {
    auto inode = static_cast<InodeId>(tree.size());
    tree[folder].entries[entry.path().filename().string()] = inode;
    if (entry.is_directory())
      read_folder(tree, inode, entry.path());
    else
      tree[inode].bytes = slurp(entry.path());
  }
}

void resize_at_least(std::string& bytes, std::uint64_t size) {
  if (bytes.size() < size) bytes.resize(size, '\0');
}
}  // namespace

Tree read_tree(const fs::path& root) {
  Tree tree;
  read_folder(tree, 0, root);
  return tree;
}

void replay(Tree& tree, const Operation& operation) {
  auto& entries = tree[operation.folder].entries;
  switch (operation.kind) {
    case Kind::write:
      resize_at_least(tree[operation.inode].bytes, operation.offset + operation.bytes.size());
      tree[operation.inode].bytes.replace(operation.offset, operation.bytes.size(), operation.bytes);
      break;
    case Kind::extend:
      resize_at_least(tree[operation.inode].bytes, operation.offset);
      break;
    case Kind::truncate:
      tree[operation.inode].bytes.resize(operation.offset, '\0');
      break;
    case Kind::create:
    case Kind::make_folder:
      tree[operation.inode].folder = operation.kind == Kind::make_folder;
      entries[operation.name] = operation.inode;
      break;
    case Kind::remove:
      entries.erase(operation.name);
      break;
    case Kind::rename:
      entries.erase(operation.name);
      tree[operation.other_folder].entries[operation.other_name] = operation.inode;
      break;
    case Kind::exchange:
      std::swap(entries[operation.name], tree[operation.other_folder].entries[operation.other_name]);
      break;
    case Kind::sync:
    case Kind::mark:
      break;
  }
}

RecordingFileSystem::RecordingFileSystem(const fs::path& root) : root_(fs::absolute(root).lexically_normal().string()) {
  recording_.start = recording_.end = read_tree(root_);
  next_ = static_cast<InodeId>(recording_.start.size());
}

RecordingFileSystem::Place RecordingFileSystem::place_of(const char* text) const {
  fs::path path = fs::path(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path == root_) return {0, ""};
  fs::path relative = path.lexically_relative(root_);
  if (relative.empty() || *relative.begin() == "..") return {};
  InodeId folder = 0;
  for (const fs::path& part : relative.parent_path()) {
    folder = inode_at({folder, part.string()});
    if (folder < 0) return {};
  }
  return {folder, relative.filename().string()};
}

InodeId RecordingFileSystem::inode_at(const Place& place) const {
  if (place.folder < 0) return -1;
  if (place.name.empty()) return place.folder;
  const auto& entries = recording_.end.at(place.folder).entries;
  auto found = entries.find(place.name);
  return found == entries.end() ? -1 : found->second;
}

void RecordingFileSystem::note(Operation operation) {
  replay(recording_.end, operation);
  recording_.operations.push_back(std::move(operation));
}

void RecordingFileSystem::mark(const std::string& text) {
  std::lock_guard lock(mutex_);
  note({.kind = Kind::mark, .name = text});
}

Recording RecordingFileSystem::recording() const {
  std::lock_guard lock(mutex_);
  return recording_;
}

/// Called with every path before it is used: is it a file that HDF5 wrote meanwhile?
void RecordingFileSystem::adopt_hdf5_file(const std::string& path) {
  if (hdf5_.erase(path) == 0 || !fs::exists(path)) return;
  Place place = place_of(path.c_str());
  InodeId inode = inode_at(place);
  if (inode < 0) note({.kind = Kind::create, .inode = inode = next_++, .folder = place.folder, .name = place.name});
  std::string now = slurp(path);
  if (now != recording_.end.at(inode).bytes) note({.kind = Kind::write, .inode = inode, .bytes = std::move(now)});
}

int RecordingFileSystem::open(const char* path, int flags, mode_t mode) {
  std::lock_guard lock(mutex_);
  adopt_hdf5_file(path);
  int descriptor = FileSystem::open(path, flags, mode);
  if (descriptor < 0) return descriptor;
  Place place = place_of(path);
  InodeId inode = inode_at(place);
  if (inode < 0 && place.folder >= 0 && (flags & O_CREAT))
    note({.kind = Kind::create, .inode = inode = next_++, .folder = place.folder, .name = place.name});
  else if (inode >= 0 && (flags & O_TRUNC))
    note({.kind = Kind::truncate, .inode = inode});
  open_[descriptor] = {inode, (flags & O_APPEND) != 0};
  return descriptor;
}

int RecordingFileSystem::close(int descriptor) {
  std::lock_guard lock(mutex_);
  open_.erase(descriptor);
  return FileSystem::close(descriptor);
}

ssize_t RecordingFileSystem::pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) {
  std::lock_guard lock(mutex_);
  ssize_t written = FileSystem::pwrite(descriptor, data, bytes, offset);
  auto [inode, appends] = open_.at(descriptor);
  if (written > 0 && inode >= 0)
    note({.kind = Kind::write,
          .inode = inode,
          .offset = appends ? recording_.end.at(inode).bytes.size() : static_cast<std::uint64_t>(offset),
          .bytes = std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(written))});
  return written;
}

int RecordingFileSystem::fsync(int descriptor) {
  std::lock_guard lock(mutex_);
  int rc = FileSystem::fsync(descriptor);
  InodeId inode = open_.at(descriptor).inode;
  if (rc == 0 && inode >= 0) note({.kind = Kind::sync, .inode = inode});
  return rc;
}

int RecordingFileSystem::fallocate(int descriptor, off_t offset, off_t bytes) {
  std::lock_guard lock(mutex_);
  int rc = FileSystem::fallocate(descriptor, offset, bytes);
  InodeId inode = open_.at(descriptor).inode;
  if (rc == 0 && inode >= 0)
    note({.kind = Kind::extend, .inode = inode, .offset = static_cast<std::uint64_t>(offset + bytes)});
  return rc;
}

int RecordingFileSystem::mkdir(const char* path, mode_t mode) {
  std::lock_guard lock(mutex_);
  int rc = FileSystem::mkdir(path, mode);
  Place place = place_of(path);
  if (rc == 0 && place.folder >= 0)
    note({.kind = Kind::make_folder, .inode = next_++, .folder = place.folder, .name = place.name});
  return rc;
}

int RecordingFileSystem::rename(const char* from, const char* to, unsigned flags) {
  std::lock_guard lock(mutex_);
  adopt_hdf5_file(from);
  int rc = FileSystem::rename(from, to, flags);
  if (rc != 0) return rc;
  Place source = place_of(from), target = place_of(to);
  InodeId inode = inode_at(source);
  if (inode < 0 || target.folder < 0) throw std::logic_error("a rename out of the recorded folder");
  note({.kind = flags & RENAME_EXCHANGE ? Kind::exchange : Kind::rename,
        .inode = inode,
        .folder = source.folder,
        .name = source.name,
        .other_folder = target.folder,
        .other_name = target.name});
  return rc;
}

int RecordingFileSystem::removed(const char* path, int result) {
  Place place = place_of(path);
  if (result == 0 && inode_at(place) >= 0)
    note({.kind = Kind::remove, .inode = inode_at(place), .folder = place.folder, .name = place.name});
  return result;
}

int RecordingFileSystem::unlink(const char* path) {
  std::lock_guard lock(mutex_);
  adopt_hdf5_file(path);
  return removed(path, FileSystem::unlink(path));
}

int RecordingFileSystem::rmdir(const char* path) {
  std::lock_guard lock(mutex_);
  return removed(path, FileSystem::rmdir(path));
}

int RecordingFileSystem::before_hdf5(const char* path) {
  std::lock_guard lock(mutex_);
  hdf5_.insert(path);
  return FileSystem::before_hdf5(path);
}

}  // namespace distdl::checkpoint::proof
