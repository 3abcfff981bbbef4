// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>

#include <distdl/tensor/granules.hpp>

namespace distdl::tensor {

Granules::Granules(std::size_t bytes, std::size_t size)
    : bytes_(bytes), size_(size), committed_((bytes + size - 1) / size, false) {}

std::size_t Granules::committed() const {
  return static_cast<std::size_t>(std::ranges::count(committed_, true));
}

std::vector<Granules::Run> Granules::all_committed() const {
  return Granules(*this).discard(0, bytes_);
}

std::vector<Granules::Run> Granules::commit(std::size_t begin, std::size_t end) {
  assert(begin <= end && end <= bytes_);
  return change(begin / size_, begin == end ? begin / size_ : (end + size_ - 1) / size_, true);
}

std::vector<Granules::Run> Granules::discard(std::size_t begin, std::size_t end) {
  assert(begin <= end && end <= bytes_);
  return change((begin + size_ - 1) / size_, end == bytes_ ? committed_.size() : end / size_, false);
}

std::vector<Granules::Run> Granules::change(std::size_t first, std::size_t end, bool committed) {
  std::vector<Run> runs;
  for (std::size_t i = first; i < end; ++i) {
    if (committed_[i] == committed) continue;
    committed_[i] = committed;
    if (!runs.empty() && runs.back().first + runs.back().count == i)
      ++runs.back().count;
    else
      runs.push_back({i, 1});
  }
  return runs;
}

}  // namespace distdl::tensor
