// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/optimizer.hpp>

namespace distdl::optim {
namespace {
std::unique_ptr<Rule> make_rule(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend) {
  check(options);
  return find_rule(options.name).make(options, layout, backend);
}

/// Grows with the first steps, so that the start values are soon forgotten.
double decay_after(double full, std::int64_t updates) {
  const auto n = static_cast<double>(updates);
  return std::min(full, (1 + n) / (10 + n));
}
}  // namespace

Optimizer::Optimizer(const Options& options, const tensor::ArenaLayout& layout, kernels::Backend& backend)
    : options_(options),
      backend_(backend),
      rule_(make_rule(options, layout, backend)),
      size_(layout.size()),
      ranges_(ranges_of_norm(layout)),
      statistics_(ranges_of(layout, tensor::Role::statistic)),
      whole_({{0, layout.size()}}),
      statistics_step_(backend),
      average_step_(backend),
      squares_(backend, ranges_.whole().size()) {}

std::vector<StateArena> state_of(const Options& options) {
  std::vector<StateArena> arenas;
  for (const auto& name : find_rule(options.name).moments) arenas.push_back({name, StateArena::Kind::moment});
  if (options.ema_decay > 0) arenas.push_back({"average", StateArena::Kind::average});
  return arenas;
}

double Optimizer::gradient_norm(const float* gradients) {
  backend_.sums_of_squares(gradients, ranges_.whole(), squares_.at(0));
  double sum = 0;
  for (double part : squares_.read()) sum += part;
  return std::sqrt(sum);
}

bool Optimizer::is_finite(const float* gradients) {
  return std::isfinite(gradient_norm(gradients));
}

std::optional<double> Optimizer::prepare(const float* gradients, const StepInfo& now, std::optional<double> squares) {
  std::optional<double> norm;
  if (options_.clip_norm > 0) norm = now.gradient_scale * (squares ? std::sqrt(*squares) : gradient_norm(gradients));
  const double clip = norm && *norm > options_.clip_norm ? options_.clip_norm / *norm : 1;
  const double scale = now.gradient_scale * clip;
  rule_->prepare({now.rate, static_cast<float>(scale), now.updates + 1,
                  now.updates - now.held_updates + (now.holds_squares ? 0 : 1), now.holds_squares});
  statistics_step_.set({static_cast<float>(options_.statistic_weight), 1.0f / static_cast<float>(now.microbatches)});
  if (options_.ema_decay > 0)
    average_step_.set({static_cast<float>(1 - decay_after(options_.ema_decay, now.step + 1)), 1});
  return norm;
}

void Optimizer::apply(const Arenas& arenas, const Elements& elements) {
  rule_->apply(arenas, elements);
  backend_.update(statistics_step_.get(), {arenas.parameters, {}, arenas.gradients}, statistics_.within(elements));
  if (arenas.average != nullptr) average(arenas, elements);
}

void Optimizer::average(const Arenas& arenas, const Elements& elements) {
  if (options_.ema_decay > 0)
    backend_.update(average_step_.get(), {arenas.average, {}, arenas.parameters}, whole_.within(elements));
}

}  // namespace distdl::optim
