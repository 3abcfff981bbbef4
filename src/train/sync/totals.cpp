// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>

#include <distdl/train/sync/totals.hpp>

namespace distdl::train {
namespace {
/// The numbers that ranks sum, one after the other: those of the step, the seconds of each stage, and the squares.
class Numbers {
 public:
  /// `stages`: ranks that hold a model together. `squares`: numbers of parallel::PieceSums.
  Numbers(int stages, std::size_t squares)
      : stages_(static_cast<std::size_t>(stages)), all_(kOfStep + 2 * stages_ + squares) {}

  double& loss() { return all_[0]; }
  double& correct() { return all_[1]; }
  double& terms() { return all_[2]; }
  double& stop() { return all_[3]; }
  double& save() { return all_[4]; }
  /// For each rank of a pipeline: the seconds in which it did not wait for others; below, those of all its passes.
  std::span<double> busy() { return std::span(all_).subspan(kOfStep, stages_); }
  std::span<double> passes() { return std::span(all_).subspan(kOfStep + stages_, stages_); }
  std::span<double> squares() { return std::span(all_).subspan(kOfStep + 2 * stages_); }
  comm::Vector all() { return {all_.data(), all_.size(), comm::DataType::float64}; }

 private:
  static constexpr std::size_t kOfStep = 5;
  std::size_t stages_;
  std::vector<double> all_;
};

StageTimes times_of(std::span<const double> busy, std::span<const double> passes) {
  const double longest = std::ranges::max(passes);
  const double mean = std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size());
  return {longest, longest - mean, std::ranges::max(busy)};
}
}  // namespace

TotalsSum::TotalsSum(const parallel::Mesh& mesh, const OwnedModel& held, kernels::Backend& backend,
                     parallel::GradientSum& sum, bool has_loss)
    : mesh_(mesh),
      held_(held),
      backend_(backend),
      sum_(sum),
      has_loss_(has_loss),
      tail_(backend, sum, held.tensors.layout.size()) {}

void TotalsSum::share_squares(const std::vector<optim::Elements>& own) {
  if (own.empty() && !mesh_.has_parts()) return;
  const auto told = own.empty() ? held_.reported_elements() : parallel::within(held_.reported_elements(), own);
  squares_.emplace(optim::ranges_of_norm(held_.whole.layout), told, own.empty() ? mesh_.replica() : mesh_.world());
}

StepTotals TotalsSum::sum(const std::optional<Pipeline::Times>& own) {
  const auto sums = tail_.read(sum_.result());
  if (mesh_.has_parts() || squares_) return sum_again(sums, own);
  return {sums.loss, sums.correct, sums.terms, sums.stop, sums.save};
}

bool TotalsSum::tells() const {
  const bool is_one_replica = !squares_ || &squares_->ranks() != &mesh_.world();
  return is_one_replica || mesh_.summing().rank() == Rank(0);
}

StepTotals TotalsSum::sum_again(const parallel::StepTail::Sums& mine, const std::optional<Pipeline::Times>& times) {
  Numbers numbers(mesh_.degrees().parts(), squares_ ? squares_->count() : 0);
  if (squares_) {
    parallel::Squares terms(backend_, sum_.result());
    squares_->write(terms, numbers.squares());
  }
  if (tells() && has_loss_ && mesh_.is_first_of_group())
    numbers.loss() = mine.loss, numbers.correct() = mine.correct, numbers.terms() = mine.terms;
  numbers.stop() = mine.stop ? 1 : 0;
  numbers.save() = mine.save ? 1 : 0;
  if (tells() && times) {
    const auto self = static_cast<std::size_t>(mesh_.replica().rank().value);
    numbers.busy()[self] = times->busy;
    numbers.passes()[self] = times->all;
  }
  (squares_ ? squares_->ranks() : mesh_.replica()).all_reduce(numbers.all()).wait();
  StepTotals totals{numbers.loss(), numbers.correct(), numbers.terms(), numbers.stop() > 0, numbers.save() > 0};
  if (squares_) {
    const auto sums = squares_->sums(numbers.squares());
    totals.squares = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  if (times) totals.stages = times_of(numbers.busy(), numbers.passes());
  return totals;
}

}  // namespace distdl::train
