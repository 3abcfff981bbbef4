// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include <distdl/checkpoint/fit.hpp>

namespace distdl::checkpoint {

Fit fit(const Summary& checkpoint, std::span<const Target> targets) {
  std::map<std::string, TensorEntry> wanted;
  for (const Target& target : targets)
    wanted.try_emplace(target.name, TensorEntry{target.name, target.dtype, target.shape});
  std::map<std::string, const TensorEntry*> found;
  for (const TensorEntry& entry : checkpoint.tensors) found.emplace(entry.name, &entry);
  Fit fit;
  for (const auto& [name, entry] : wanted) {
    auto there = found.find(name);
    if (there == found.end())
      fit.missing.push_back(name);
    else if (*there->second != entry)
      fit.mismatched.push_back({entry, *there->second});
    else
      fit.matching.push_back(name);
  }
  for (const auto& [name, entry] : found)
    if (!wanted.contains(name)) fit.unused.push_back(name);
  return fit;
}

std::string shortened(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
                     names.size() - most);
}

}  // namespace distdl::checkpoint
