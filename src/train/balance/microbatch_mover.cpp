// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/ranges.h>

#include <distdl/base/log.hpp>
#include <distdl/base/median.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/train/balance/microbatch_mover.hpp>
#include <distdl/train/ranks/agreement.hpp>

namespace distdl::train {
namespace {
constexpr std::int64_t kWarmUp = 2;          ///< steps after a start, in which backends prepare their kernels
constexpr std::int64_t kAfterMove = 1;       ///< a step after a move, in which samples are read anew
constexpr std::chrono::minutes kBetween{1};  ///< two events of a kind
static_assert(sizeof(RankTimes) == 2 * sizeof(double));

std::vector<int> shares_of(const parallel::MicrobatchPlan& plan) {
  std::vector<int> shares;
  for (const auto& range : plan.ranges) shares.push_back(range.count);
  return shares;
}
}  // namespace

/// A GPU without memory is an error of the configuration, which agree() has passed on; that of a lost peer may be too.
bool is_lack_of_memory(const Error& error) {
  if (dynamic_cast<const CommError*>(&error)) return dynamic_cast<const comm::NoMemory*>(&error) != nullptr;
  return error.exit_code() == ExitCode::config;
}

namespace {
/// The ranks that hold a model together compute the same ones.
bool has_own_microbatches(const comm::Communicator& communicator, const MovableMicrobatches& movable) {
  return movable.plan().ranges.size() == static_cast<std::size_t>(communicator.size());
}
}  // namespace

Balancing::Balancing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                     Clock::duration timeout, records::Observer& observer, kernels::Backend& backend,
                     MovableMicrobatches& movable)
    : setting_(setting),
      communicator_(communicator),
      timeout_(timeout),
      observer_(observer),
      backend_(backend),
      movable_(movable),
      // The bits of compressed sums depend on which rank has which microbatches.
      is_on_(recipe.train.balance && communicator.size() > 1 && has_own_microbatches(communicator, movable) &&
             setting.devices_per_rank == 1 && !recipe.parallel.compression.is_on()),
      times_(static_cast<std::size_t>(communicator.size())),
      unmeasured_(kWarmUp),
      until_next_(MoveRule::kLeastSteps),
      disturbed_(times_.size()) {
  if (!is_on_) return;
  const auto& plan = movable.plan();
  for (const auto& range : plan.ranges) arenas_.push_back(parallel::arenas_for(range, plan.microbatches));
  std::vector<std::size_t> allowed = arenas_;
  for (std::size_t& each : allowed) ++each;
  balance_.emplace(recipe.parallel, plan, allowed);
  if (plan.microbatches == communicator.size() && communicator.rank() == Rank(0))
    log(Severity::debug, "each rank has one microbatch, so none can move away from a slow rank");
}

void Balancing::step_done(const TrainingState& state, const StepResult& done, double seconds, bool is_disturbed) {
  if (!is_on_) return;
  if (unmeasured_ > 0) {
    --unmeasured_;
    return;
  }
  sums_.step_seconds += seconds;
  ++sums_.steps;
  sums_.is_disturbed = sums_.is_disturbed || is_disturbed;
  if (done.compute_seconds) {
    sums_.compute_seconds += *done.compute_seconds;
    sums_.microbatches += movable_.plan().of(communicator_.rank()).count;
  }
  if (--until_next_ > 0) return;
  exchange(state);
  sums_ = {};
  until_next_ = balance_->steps_until_next();
}

RankTimes Balancing::mine(Step step) const {
  if (setting_.hooks.rank_times) return setting_.hooks.rank_times(step, movable_.plan());
  if (sums_.is_disturbed) return RankTimes::disturbed();
  if (sums_.microbatches == 0) return {};
  return {sums_.compute_seconds / static_cast<double>(sums_.microbatches),
          sums_.step_seconds / static_cast<double>(sums_.steps)};
}

void Balancing::exchange(const TrainingState& state) {
  const RankTimes own = mine(state.step);
  const comm::ConstVector values(&own, 2, comm::DataType::float64);
  communicator_.all_gather(values, comm::Vector(times_.data(), 2 * times_.size(), comm::DataType::float64)).wait();
  note_disturbed(state.step);
  if (balance_->take(times_))
    move(state);
  else if (is_news())
    tell(state.step, false);
}

void Balancing::move(const TrainingState& state) {
  if (!make_room()) return;
  movable_.set_plan(balance_->plan(), state);
  unmeasured_ = kAfterMove;
  tell(state.step, true);
}

bool Balancing::make_room() {
  const auto& plan = balance_->plan();
  bool fits = true;
  for (std::size_t r = 0; r < arenas_.size(); ++r)
    fits = fits && parallel::arenas_for(plan.ranges[r], plan.microbatches) <= arenas_[r];
  if (fits) return true;
  try {
    if (backend_.memory_is_host())
      movable_.allocate_spare();
    else
      agree(communicator_, timeout_, [this] { movable_.allocate_spare(); });
  } catch (const Error& error) {
    if (!is_lack_of_memory(error)) throw;
    if (communicator_.rank() == Rank(0))
      log(Severity::warning, "microbatches stay where they are, because to move them takes memory: {}", error.what());
    balance_->refuse(arenas_);
    return false;
  }
  for (std::size_t& each : arenas_) ++each;
  return true;
}

bool Balancing::is_news() const {
  constexpr double kOtherwise = 1.25;
  const auto& now = balance_->microbatch_seconds();
  if (communicator_.rank() != Rank(0) || now.empty()) return false;
  if (told_.empty()) return true;
  if (Clock::now() < may_tell_) return false;
  for (std::size_t r = 0; r < now.size(); ++r)
    if (now[r] > kOtherwise * told_[r] || told_[r] > kOtherwise * now[r]) return true;
  return false;
}

std::vector<std::string> Balancing::hosts() const {
  std::vector<std::string> all;
  all.reserve(static_cast<std::size_t>(communicator_.size()));
  for (int r = 0; r < communicator_.size(); ++r) all.push_back(communicator_.host(Rank(r)));
  return all;
}

void Balancing::note_disturbed(Step step) {
  if (communicator_.rank() != Rank(0)) return;
  for (std::size_t r = 0; r < times_.size(); ++r) {
    if (!times_[r].is_disturbed()) continue;
    ++disturbed_[r];
    has_new_disturbed_ = true;
  }
  if (!has_new_disturbed_ || Clock::now() < may_tell_disturbed_) return;
  has_new_disturbed_ = false;
  may_tell_disturbed_ = Clock::now() + kBetween;
  observer_.on(records::RanksDisturbed{step, disturbed_, hosts()});
}

void Balancing::tell(Step step, bool moved) {
  if (communicator_.rank() != Rank(0)) return;
  records::SharesKnown event{step,
                             moved,
                             shares_of(balance_->plan()),
                             balance_->microbatch_seconds(),
                             hosts(),
                             movable_.plan().microbatch_size,
                             movable_.recomputes(),
                             moved ? balance_->went_back() : std::string()};
  const auto slowest = std::max_element(event.microbatch_seconds.begin(), event.microbatch_seconds.end());
  if (!event.went_back.empty()) {
    log(Severity::info, "the ranks' shares of the microbatches are {} again, as before the last move: {}",
        fmt::join(event.shares, " "), event.went_back);
  } else if (moved && slowest != event.microbatch_seconds.end()) {
    const auto rank = static_cast<std::size_t>(slowest - event.microbatch_seconds.begin());
    log(Severity::info,
        "the ranks' shares of the microbatches are now {}: rank {} ({}) takes {:.3g} s for one, the median is {:.3g} s",
        fmt::join(event.shares, " "), rank, event.hosts[rank], *slowest, median(event.microbatch_seconds));
  }
  told_ = event.microbatch_seconds;
  may_tell_ = Clock::now() + kBetween;
  observer_.on(event);
}

}  // namespace distdl::train
