// SPDX-License-Identifier: Apache-2.0
// The files are not trusted: a row whose fields do not fit each other loses what cannot be right.
#include <algorithm>
#include <string>
#include <vector>

#include <distdl/records/record.hpp>

namespace distdl::records {
namespace {
/// Levels of later versions stay: a name is a short word of small letters.
void drop_what_is_no_name(std::vector<std::string>& levels) {
  constexpr std::size_t kLongest = 20;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  std::erase_if(levels, [&](const std::string& level) {
    return level.empty() || level.size() > kLongest || !std::ranges::all_of(level, is_letter);
  });
}
}  // namespace

void mend(CheckpointSaved& saved) {
  drop_what_is_no_name(saved.levels);
}

void mend(SnapshotKept& kept) {
  drop_what_is_no_name(kept.levels);
}

void mend(Started& started) {
  constexpr std::int64_t kMostSteps = 1 << 30;  // a file has too few rows for their sum to overflow
  if (started.steps_repeated > kMostSteps) started.steps_repeated = 0;
  auto& compute = started.compute;
  compute.hardware_flops = std::max(compute.model_flops, compute.hardware_flops);
}

void mend(ProductChosen& product) {
  const auto is_there = [&product](Rank rank) { return static_cast<std::size_t>(rank.value) < product.hosts.size(); };
  if (std::ranges::all_of(product.servers, is_there) && std::ranges::all_of(product.workers, is_there)) return;
  product.servers.clear();
  product.workers.clear();
  product.hosts.clear();
}

void mend(ResourcesUsed& used) {
  const auto kinds = used.collectives.size();
  if (used.calls.size() == kinds && used.moved_bytes.size() == kinds && used.collective_seconds.size() == kinds) return;
  used.collectives.clear();
  used.calls.clear();
  used.moved_bytes.clear();
  used.collective_seconds.clear();
}

void mend(StepDone& done) {
  if (done.names.size() == done.values.size()) return;
  done.names.clear();
  done.values.clear();
}

void mend(NodeHealth& health) {
  constexpr double kMost = 2e9, kMostJoules = 1e15;
  const auto limit = [](auto& value, double most) {
    if (value && static_cast<double>(*value) > most) value.reset();
  };
  for (auto* const value :
       {&health.load, &health.cpu_pressure, &health.memory_pressure, &health.io_pressure, &health.free_memory})
    limit(*value, kMost);
  for (auto* const value : {&health.throttles, &health.corrected_errors, &health.uncorrected_errors})
    limit(*value, kMost);
  limit(health.energy, kMostJoules);
  if (!health.gpus) return;
  limit(health.gpus->hottest, kMost);
  limit(health.gpus->corrected_errors, kMost);
  limit(health.gpus->uncorrected_errors, kMost);
}

void mend(SharesKnown& shares) {
  const auto ranks = shares.shares.size();
  if (ranks == 0 || shares.microbatch_seconds.size() != ranks || shares.hosts.size() != ranks)
    shares = {.step = shares.step};
}

void mend(RangesKnown& ranges) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto servers = ranges.elements.size();
  const bool is_reasonable = std::ranges::all_of(ranges.elements, [](std::int64_t each) { return each <= kMost; });
  if (servers == 0 || ranges.element_seconds.size() != servers || ranges.hosts.size() != servers || !is_reasonable)
    ranges = {.step = ranges.step};
}

void mend(RanksDisturbed& disturbed) {
  if (disturbed.measurements.size() != disturbed.hosts.size()) disturbed = {.step = disturbed.step};
}

}  // namespace distdl::records
