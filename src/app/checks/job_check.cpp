// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <distdl/app/checks/job_check.hpp>
#include <distdl/app/checks/program_check.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/config/effects.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/source.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/recipe.hpp>

namespace distdl::app {
namespace {
/// Those whose memory is checked: all on this machine, or one of a job with as many replicas as microbatches.
train::RanksOfMachine ranks_to_check(const parallel::Options& options, const std::optional<RankCounts>& ranks) {
  train::RanksOfMachine checked{
      .degrees = {static_cast<int>(options.microbatches), static_cast<int>(options.pipeline_ranks),
                  static_cast<int>(options.tensor_ranks), static_cast<int>(options.context_ranks)}};
  if (!ranks || ranks->here == 0) return checked;
  checked.here = ranks->here;
  checked.degrees.data = std::max(1, ranks->here / checked.degrees.parts());
  return checked;
}

/// Whether ranks may need less memory than the keys of the job tell: they choose the strategy, or those on this machine
/// choose stages, or hold the model together in other groups than the job asks for.
bool may_need_less(const parallel::Options& options, const std::optional<RankCounts>& ranks, int most_stages) {
  const auto parts = options.pipeline_ranks * options.tensor_ranks * options.context_ranks;
  if (options.strategy == parallel::Strategy::automatic) return true;
  if (parts == 1 || !ranks || ranks->here == 0) return false;
  if (options.pipeline_ranks > 1 && options.stage_layers.empty()) return true;
  if (!ranks->goes_on) return false;
  std::string reason;
  parallel::nearest_degrees(options, ranks->here, most_stages, reason);
  return !reason.empty();
}

/// The kind of the sets to train on; empty for samples of a user's own.
std::string kind_of_samples(const data::Options& options) {
  if (!options.source.empty()) return "";
  return data::describe_file(options.sets.empty() ? options.train : options.sets.front()).kind;
}
}  // namespace

JobFacts examine_job(const config::Job& job, std::uint64_t memory, const std::optional<RankCounts>& ranks) {
  if (job.program.is_given()) {
    check_program(job, ranks.value_or(RankCounts{.at_start = 0}));
    return {fmt::format("program {}", printable(job.program.command.front()))};
  }
  const auto& recipe = job.recipe;
  const auto plan = parallel::make_plan(recipe.parallel, 1);
  const auto sources =
      data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed));
  config::check_surroundings(job, {.data = kind_of_samples(recipe.data)});
  const data::Source& samples = *sources.training;
  const auto model = train::model_of(recipe, samples);
  train::steps_of(recipe, samples.samples());
  const auto tensors = model::tensors_of(model);
  const auto& parallel = recipe.parallel;
  auto least = model::branches_of(  // that a rank has
      model, 0, static_cast<std::size_t>(parallel.tensor_shards / parallel.tensor_ranks));
  least.context = {parallel.context_chunks, 0, parallel.context_chunks / parallel.context_ranks};
  if (ranks) check_plan(job, *ranks, parallel::most_stages(model));  // first, for it knows more than the stages
  parallel::check_stages(parallel, least);
  if (may_need_less(parallel, ranks, parallel::most_stages(model))) memory = kAnyMemory;
  auto checked = ranks_to_check(parallel, ranks);
  checked.devices = static_cast<int>(job.devices_per_rank);
  const int length = static_cast<int>(parallel.pipeline_ranks);
  const auto stages =
      parallel::stages_of(model, least, length * parallel::stages_per_rank(parallel, length), parallel.stage_layers);
  for (int rank = 0; rank < length; ++rank)
    train::check_memory(least, model::tensors_of(least, parallel::stages_of_rank(stages, rank, length)).front(),
                        parallel, recipe.optim, checked, memory);
  const std::uint64_t arenas = 1 + optim::state_of(recipe.optim).size();  // parameters, and what the optimizer keeps
  return {fmt::format("model {} with {} parameters, {} samples of {} {} {} {}, global batch {}", model.name,
                      model::parameter_count(tensors), samples.samples(), tensor::to_string(samples.shape()),
                      samples.targets().empty() ? "in" : "with", samples.classes(),
                      samples.targets().empty() ? "classes" : "numbers to predict", plan.global_batch()),
          tensors.layout.size() * arenas * sizeof(float)};
}

std::string check_job(const config::Job& job, std::uint64_t memory, const std::optional<RankCounts>& ranks) {
  return examine_job(job, memory, ranks).text;
}

}  // namespace distdl::app
