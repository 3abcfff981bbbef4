// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/checkpoint/proof/recording.hpp"

// What a disk may hold after a power loss, as pessimistic as POSIX allows: of all that was not synced, anything may be
// there or not, in any order.
namespace distdl::checkpoint::proof {

/// The smallest thing that is on the disk or not. A write is cut into several: it may be torn.
struct Change {
  enum class Fate { absent, present, garbage };  ///< garbage: the blocks belong to the file, its bytes never came
  Operation operation;
  std::size_t at = 0;              ///< number of the operation in the recording
  std::vector<std::size_t> needs;  ///< changes of the same names before it: without them this one cannot be
  std::vector<InodeId> keepers;    ///< once each of these is synced, the change stays
};

/// All moments and ways in which power may be lost during a recording.
class PowerModel {
 public:
  explicit PowerModel(const Recording& recording);

  /// A choice of what survives: one fate for each change up to `moment`.
  struct Loss {
    std::size_t moment = 0;  ///< operations done when the power went
    std::vector<Change::Fate> fates;
  };
  /// For every moment: nothing unsynced survives, all of it, only names, only data, all but one change, only one.
  void for_each_loss(const std::function<void(const Loss&)>& visit) const;
  /// Nothing unsynced survives.
  Loss greatest_loss(std::size_t moment) const;
  /// A random moment and choice.
  Loss random_loss(std::uint64_t seed) const;
  /// What is on the disk then.
  Tree disk_after(const Loss& loss) const;
  std::size_t moments() const { return operations_ + 1; }

 private:
  void add(const Operation& operation, std::size_t at);
  std::vector<bool> synced_at(std::size_t moment) const;
  std::size_t changes_before(std::size_t moment) const;
  void complete(Loss& loss, const std::vector<bool>& synced) const;

  Tree start_;
  std::size_t operations_ = 0;
  std::vector<Change> changes_;
  std::vector<std::pair<std::size_t, InodeId>> syncs_;  ///< moment and inode
};

/// Makes a real folder of a tree.
void materialise(const Tree& tree, const std::filesystem::path& where);
/// A number for what a program sees in a tree; equal trees have equal ones.
std::size_t hash_of(const Tree& tree);

}  // namespace distdl::checkpoint::proof
