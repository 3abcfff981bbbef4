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

std::string problem_of(const Fit& fit) {
  constexpr std::size_t kNames = 5;
  if (fit.exact()) return "";
  std::string problem;
  for (const auto& [wanted, there] : fit.mismatched)
    problem += fmt::format("{}tensor \"{}\" is {} {} in the model, but was saved as {} {}", problem.empty() ? "" : "; ",
                           wanted.name, tensor::code_of(wanted.dtype), tensor::to_string(wanted.shape),
                           tensor::code_of(there.dtype), tensor::to_string(there.shape));
  const std::string advice = "use another run.dir for a new run";
  if (!problem.empty()) return fmt::format("{}; {}", problem, advice);
  if (!fit.missing.empty()) problem = fmt::format("it lacks {}", shortened(fit.missing, kNames));
  if (!fit.unused.empty())
    problem += fmt::format("{}it has {}, which the model does not have", problem.empty() ? "" : "; ",
                           shortened(fit.unused, kNames));
  return fmt::format("{}; --partial (checkpoint.partial = true) loads what fits and initializes the rest; or {}",
                     problem, advice);
}

std::string shortened(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most), ", "),
                     names.size() - most);
}

}  // namespace distdl::checkpoint
