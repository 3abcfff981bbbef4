// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <string_view>

#include <distdl/base/errors.hpp>
#include <distdl/train/state/best.hpp>

namespace distdl::train {
namespace {
bool is_better(double value, const BestEvaluation& best, double min_delta) {
  return best.metric == Metric::loss ? value < best.value - min_delta : value > best.value + min_delta;
}

/// The text up to the next space, which is taken away with it.
std::string_view next_word(std::string_view& text) {
  const auto end = text.find(' ');
  const auto word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

template <class Number>
bool number_from(std::string_view word, Number& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}
}  // namespace

bool compares_evaluations(const Options& options) {
  return options.keep_best || options.stop_early_patience > 0;
}

void take_evaluation(std::optional<BestEvaluation>& best, const Options& options,
                     const records::Evaluated& evaluation) {
  const Metric metric = options.best_metric;
  const double value = (metric == Metric::loss ? evaluation.loss : evaluation.accuracy).value();
  if (!best || best->metric != metric) {
    best = BestEvaluation{metric, value, evaluation.step, evaluation.step, 0};
    return;
  }
  if (best->last == evaluation.step) return;
  best->last = evaluation.step;
  ++best->worse;
  if (is_better(value, *best, options.best_min_delta)) *best = {metric, value, evaluation.step, evaluation.step, 0};
}

bool ends_early(const std::optional<BestEvaluation>& best, const Options& options) {
  return options.stop_early_patience > 0 && best && best->metric == options.best_metric &&
         best->worse >= options.stop_early_patience;
}

std::string reason_of_early_end(const BestEvaluation& best) {
  return fmt::format("{} evaluation{} in a row {} not better than that of step {} ({} {:.6g})", best.worse,
                     best.worse == 1 ? "" : "s", best.worse == 1 ? "was" : "were", best.step,
                     OneOf<Metric>(best.metric), best.value);
}

std::string to_text(const BestEvaluation& best) {
  return fmt::format("{} {} {} {} {}", OneOf<Metric>(best.metric), best.value, best.step, best.last, best.worse);
}

BestEvaluation best_evaluation_from(const std::string& text) {
  std::string_view rest = text;
  const auto metric = OneOf<Metric>::find(next_word(rest));
  BestEvaluation best;
  const bool is_good = metric && number_from(next_word(rest), best.value) && std::isfinite(best.value) &&
                       number_from(next_word(rest), best.step.value) && number_from(next_word(rest), best.last.value) &&
                       number_from(next_word(rest), best.worse) && rest.empty() && best.step >= Step(0) &&
                       best.last >= best.step && best.worse >= 0;
  if (!is_good)
    throw StorageError(fmt::format("the checkpoint's \"best\" is \"{}\", not an evaluation", text), ExitCode::corrupt);
  best.metric = *metric;
  return best;
}

}  // namespace distdl::train
