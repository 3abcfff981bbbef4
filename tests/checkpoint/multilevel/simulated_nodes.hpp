// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>
#include <distdl/files/file_system.hpp>

// Nodes are simulated on this one: each has a name of its own for its buffers in /dev/shm, and its own "local disk".
namespace distdl::checkpoint {

using Bytes = std::vector<std::byte>;

/// Boxes of letters between ranks that are threads.
class Post {
 public:
  /// The n-th letter arrives with one bit changed: of tensors, if it is a whole snapshot.
  explicit Post(int damaged = -1) : damaged_(damaged) {}
  int sent() const { return sent_; }
  void put(int from, int to, std::span<const std::byte> bytes) {
    std::lock_guard lock(mutex_);
    auto& letter = letters_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    if (sent_++ == damaged_ && !letter.empty()) letter[letter.size() * 7 / 8] ^= std::byte{4};
    arrived_.notify_all();
  }
  void take(int from, int to, std::span<std::byte> bytes) {
    std::unique_lock lock(mutex_);
    auto& box = letters_[{from, to}];
    if (!arrived_.wait_for(lock, std::chrono::seconds(30), [&] { return !box.empty(); }))
      throw StorageError("no letter came");
    if (box.front().size() != bytes.size()) throw StorageError("a letter of another length came");
    std::copy(box.front().begin(), box.front().end(), bytes.begin());
    box.pop_front();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<Bytes>> letters_;
  int damaged_, sent_ = 0;
};

/// With letters for what is carried.
class PostGroup final : public Group {
 public:
  PostGroup(Group& group, Post& post) : group_(group), post_(post) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override { return group_.all_gather(mine); }
  void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    for (const Outgoing& one : out) post_.put(rank(), one.to, one.bytes);
    for (const Incoming& one : in) post_.take(one.from, rank(), one.bytes);
  }

 private:
  Group& group_;
  Post& post_;
};

/// Simulated nodes with what they keep, for one test.
class Site {
 public:
  Site() : run_("levels" + std::to_string(::getpid()) + "_" + std::to_string(next_++)) {}
  ~Site() {
    for (const auto& name : names()) ::unlink(("/dev/shm/" + name).c_str());
  }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  Levels::Setup setup(const std::string& node) const {
    Levels::Setup setup;
    setup.run = run_;
    setup.memory = run_ + "_" + node + "_";
    setup.place = {node, ""};
    setup.options.partner_every = setup.options.parity_every = 1;
    setup.options.parity_set = parity_set;
    if (disk) setup.options.disk_every = 1;
    if (disk) setup.options.disk_folder = folder_.path() / node;
    return setup;
  }
  std::string memory_of(const std::string& node) const { return setup(node).memory; }
  std::filesystem::path disk_of(const std::string& node) const { return folder_.path() / node; }
  SnapshotLabel label(int rank, int world, Step step) const { return {run_, rank, world, step, 7, {start, 1}}; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().find(run_ + "_") != std::string::npos)
        found.insert(entry.path().filename().string());
    return found;
  }
  void remove_all_but(const std::set<std::string>& kept) const {
    for (const auto& name : names())
      if (!kept.contains(name)) ::unlink(("/dev/shm/" + name).c_str());
  }

  int parity_set = 8;
  bool disk = false;
  std::uint64_t start = 1;  ///< in which snapshots are taken

 private:
  static inline int next_ = 0;
  std::string run_;
  TemporaryFolder folder_;
};

/// Ranks of a world on these nodes, each with its Levels.
/// Throws what a rank threw. Returns how many letters were sent.
inline int run_on(const Site& site, const std::vector<std::string>& nodes,
                  const std::function<void(Levels&, int rank, const std::string& node)>& work,
                  int damaged_letter = -1) {
  Post post(damaged_letter);
  ThreadGroups groups(static_cast<int>(nodes.size()));
  const auto errors = groups.run([&](Group& group) {
    PostGroup with_post(group, post);
    const std::string& node = nodes[static_cast<std::size_t>(group.rank())];
    Levels levels(with_post, real_file_system(), site.setup(node));
    work(levels, group.rank(), node);
  });
  for (const auto& error : errors)
    if (!error.empty()) throw std::runtime_error(error);
  return post.sent();
}

/// Each rank fills a buffer in its node's memory with its share, and protects it.
inline int save(const Site& site, const std::vector<std::string>& nodes, const Sample& sample, Step step,
                const Protection& how, int damaged_letter = -1) {
  return run_on(
      site, nodes,
      [&](Levels& levels, int rank, const std::string& node) {
        const int world = static_cast<int>(nodes.size());
        const Share share = share_of(sample, rank, world);
        const State state{{"position", "77"}};
        SnapshotMemory own = SnapshotMemory::create(site.memory_of(node), rank, buffer_bytes(share.slices, state));
        fill_buffer(own.writable(), site.label(rank, world, step), share.slices, state);
        levels.protect(own.bytes(), how);
      },
      damaged_letter);
}

inline std::vector<std::string> names_of(int nodes, int ranks_each = 1) {
  std::vector<std::string> names;
  for (int n = 0; n < nodes; ++n)
    for (int r = 0; r < ranks_each; ++r) names.push_back("n" + std::to_string(n));
  return names;
}

}  // namespace distdl::checkpoint
