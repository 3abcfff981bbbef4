// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace distdl::tensor {

/// Which parts of reserved addresses have memory. Memory comes and goes in granules of one size; the last one may reach
/// beyond the end.
class Granules {
 public:
  /// A sequence of granules.
  struct Run {
    std::size_t first = 0, count = 0;
    bool operator==(const Run&) const = default;
  };
  /// Both in bytes; none of the `bytes` has memory.
  Granules(std::size_t bytes, std::size_t size);

  /// Bytes of a granule.
  std::size_t size() const { return size_; }
  /// Granules with memory.
  std::size_t committed() const;
  /// All of them, as runs, ascending.
  std::vector<Run> all_committed() const;
  /// The granules that touch the bytes [begin, end) get memory. Returns those that had none, ascending.
  std::vector<Run> commit(std::size_t begin, std::size_t end);
  /// The granules that lie within the bytes [begin, end) lose their memory. Returns those that had some, ascending.
  std::vector<Run> discard(std::size_t begin, std::size_t end);

 private:
  /// Those of [first, end) that are in the other state, which they then have no more.
  std::vector<Run> change(std::size_t first, std::size_t end, bool committed);

  std::size_t bytes_, size_;
  std::vector<bool> committed_;
};

}  // namespace distdl::tensor
