// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/server/promises.hpp"

#include <algorithm>
#include <bit>

namespace distdl::parallel::server::simulation {

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x7F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 27);
}

Promises::Promises(const Rules& rules) : rules_(rules) {
  set_reference();
}

/// The contents of all versions with `synchronous`, computed in order by one worker.
void Promises::set_reference() {
  std::vector<Content> now;
  for (int range = 0; range < rules_.ranges; ++range) now.push_back(first(range));
  for (std::int64_t step = 0; step <= rules_.steps; ++step) {
    reference_.push_back(now);
    for (std::size_t range = 0; range < now.size(); ++range)
      for (std::int64_t i = 0; i < rules_.microbatches; ++i) {
        const Microbatch microbatch(step * rules_.microbatches + i);
        auto gradient = static_cast<std::uint64_t>(microbatch.value);
        for (const Content& content : reference_.back()) gradient = mix(gradient, content.chain);
        now[range].chain = mix(now[range].chain, gradient);
        if (microbatch.value < rules_.total()) now[range].microbatches |= bit_of(microbatch);
      }
  }
}

void Promises::check_read(const Content& content, int range, Microbatch microbatch) const {
  if (rules_.mode == Mode::asynchronous) return;
  const std::int64_t step = rules_.step_of(microbatch);
  const std::int64_t complete = std::max<std::int64_t>(0, step - rules_.staleness);
  const std::uint64_t needed = bit_of(Microbatch(complete * rules_.microbatches)) - 1;
  if ((content.microbatches & needed) != needed)
    broken("microbatch {} is computed with parameters that are too old in range {}", microbatch, range);
  if (rules_.mode == Mode::synchronous &&
      !(content == reference_[static_cast<std::size_t>(step)][static_cast<std::size_t>(range)]))
    broken("microbatch {} is computed with other parameters than of step {} in range {}", microbatch, step, range);
}

void Promises::check_staleness(const Apply& action) const {
  const std::int64_t most = rules_.mode == Mode::synchronous ? 0 : (2 * rules_.staleness + 1) * rules_.microbatches - 1;
  if (rules_.mode != Mode::asynchronous && action.staleness > most)
    broken("range {} applies a gradient that lacks {} updates, {} at most", action.range, action.staleness, most);
  if (action.staleness < 0) broken("range {} applies a gradient of a later version", action.range);
}

void Promises::check_content(int range, Version version, const Content& content) const {
  const auto same = contents_.find({range, version});
  if (same != contents_.end() && !(same->second == content))
    broken("range {} has two contents of version {}", range, version);
}

void Promises::check_holder(Node node, int range, const Storage& storage) {
  const std::uint64_t missing = acknowledged_[range] & ~storage.known();
  if (missing) broken("server {} takes range {} without microbatch {}", node, range, std::countr_zero(missing));
  for (const auto& [version, content] : storage.versions) check_content(range, version, content);
}

void Promises::check_kept(const std::vector<const std::map<int, Storage>*>& servers, std::int64_t under_way) const {
  std::vector<std::map<Version, Content>> kept(static_cast<std::size_t>(rules_.ranges));
  for (const auto* const server : servers)
    for (const auto& [range, storage] : *server)
      kept[static_cast<std::size_t>(range)].insert(storage.kept.begin(), storage.kept.end());
  for (std::int64_t step = rules_.steps; step >= under_way; --step) {
    const auto has_it = [&](const auto& versions) { return versions.contains(Version(step)); };
    if (!std::ranges::all_of(kept, has_it)) continue;
    for (std::size_t range = 0; range < kept.size(); ++range)
      if (!(kept[range].at(Version(step)) == reference_[static_cast<std::size_t>(step)][range]))
        broken("range {} was kept with other parameters than of step {}", range, step);
    return;
  }
  broken("no step from {} on, which is under way, was kept of all ranges", under_way);
}

void Promises::check_end(int range, const Content& content) const {
  const std::uint64_t all = rules_.total() == 64 ? ~std::uint64_t{0} : bit_of(Microbatch(rules_.total())) - 1;
  if (content.microbatches != all) broken("range {} ends without all microbatches", range);
  if (rules_.mode == Mode::synchronous && !(content == reference_.back()[static_cast<std::size_t>(range)]))
    broken("range {} ends with other parameters than those of one worker", range);
}

}  // namespace distdl::parallel::server::simulation
