// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/checked.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/train/loop/resume_checks.hpp>

namespace distdl::train {

void require_possible_position(const TrainingState& state, Step most, std::int64_t global_batch) {
  if (state.position <= checked_product(most.value, global_batch, "the position in the samples")) return;
  throw StorageError(
      fmt::format(
          "the checkpoint of step {} has the position {} in the samples, which lies beyond the {} steps of this "
          "run: it is damaged, or parallel.microbatches was changed and changed back; then --partial continues",
          state.step, state.position, most),
      ExitCode::corrupt);
}

void ResumedLoss::read(const Recipe& recipe, Host& host, comm::Communicator& communicator, Step step,
                       bool repeats_bits) {
  std::string mine;
  if (communicator.rank() == Rank(0) && recipe.train.check_resumed_loss && recipe.kernels.deterministic &&
      parallel::repeats_losses(recipe.parallel) && repeats_bits)
    if (const auto loss = host.recorded_loss(step)) mine.assign(reinterpret_cast<const char*>(&*loss), sizeof *loss);
  const auto all = communicator.all_gather_strings(mine);
  if (all[0].size() != sizeof(double)) return;
  std::memcpy(&recorded_.emplace(), all[0].data(), sizeof(double));
}

void ResumedLoss::check(Step step, double loss, Checkpointing& checkpointing) {
  const auto recorded = std::exchange(recorded_, std::nullopt);
  if (!recorded || std::bit_cast<std::uint64_t>(*recorded) == std::bit_cast<std::uint64_t>(loss)) return;
  checkpointing.end();
  throw Error(
      ExitCode::irreproducible,
      fmt::format(
          "step {} gave the loss {:a} ({}) after the restore, but {:a} ({}) before: bits do not repeat. Likely causes: "
          "a node of this start or of the earlier one computes or stores wrong bits (train.audit_every finds which), "
          "the checkpoint was damaged in memory before it was saved, or distdl, a library or the type of the nodes has "
          "changed. {}. To accept it: --set train.check_resumed_loss=false",
          step, loss, loss, *recorded, *recorded, checkpointing.way_back()));
}

}  // namespace distdl::train
