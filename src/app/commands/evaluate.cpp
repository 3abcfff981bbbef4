// SPDX-License-Identifier: Apache-2.0
// distdl evaluate | predict
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/result_output.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/app/model/confusion.hpp>
#include <distdl/app/model/ensemble.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/source.hpp>
#include <distdl/model/models.hpp>
#include <distdl/tokenizer/utf8.hpp>

namespace distdl::app {
namespace {
using nlohmann::ordered_json;

struct EvaluateArguments {
  std::string checkpoint;
  std::vector<std::string> others;  ///< other checkpoints of the ensemble
  data::Options data;
  kernels::Options kernels;
  std::int64_t batch = 64;
  std::int64_t first = 0, count = 10, top = 3;
  bool with_classes = false, as_json = false;
};

/// Samples are read as the run did: normalized, turned and resized likewise.
void take_data_keys(const checkpoint::Summary& summary, data::Options& options) {
  const auto said = [&](const char* key) {
    const auto found = summary.state.find(key);
    return found == summary.state.end() ? std::string() : found->second;
  };
  if (const auto normalize = said("data.normalize"); !normalize.empty())
    options.normalize = OneOf<data::Normalization>(normalize);
  options.upright = said("data.upright") == "true";
  if (const auto resize = said("data.resize"); !resize.empty())
    options.resize = std::strtoll(resize.c_str(), nullptr, 10);
}

/// A data set for a trained model, read as it is: neither shuffled nor augmented.
std::unique_ptr<data::Source> open_for(const TrainedModel& model, EvaluateArguments& arguments) {
  const auto& about = model.description();
  const std::int64_t context = about.sample.size() == 1 ? about.sample[0] : 1;
  arguments.data.validation = arguments.data.train;
  take_data_keys(model.checkpoint(), arguments.data);
  auto source = data::open_sources(arguments.data, context, 0).validation;
  // A table of tokens may have more rows than the set has tokens (model.vocabulary).
  const bool fits = about.sample.size() == 1 ? source->classes() <= about.classes : source->classes() == about.classes;
  const bool has_targets = !source->targets().empty();
  require(source->shape() == about.sample && fits && has_targets != model::tells_classes(about),
          "{} has samples {} of {} classes, but the model of \"{}\" takes {} of {}", source->name(),
          tensor::to_string(source->shape()), source->classes(), model.checkpoint().folder.string(),
          tensor::to_string(about.sample), about.classes);
  const auto units = model.checkpoint().state.find("data.units");
  require(
      units == model.checkpoint().state.end() || units->second == source->units(),
      "{} has other columns, classes, means or deviations than the set on which \"{}\" was trained; import it again "
      "with --like and that set",
      source->name(), model.checkpoint().folder.string());
  const auto tokenizer = tokenizer_in(model.checkpoint());
  const std::string other = source->tokenizer();
  require(!tokenizer || other.empty() || tokenizer->content() == other,
          "{} was made with another tokenizer than the set on which \"{}\" was trained: its numbers are other tokens; "
          "import the text with the tokenizer of that set",
          source->name(), model.checkpoint().folder.string());
  return source;
}

Ensemble ensemble_of(const EvaluateArguments& arguments) {
  std::vector<std::string> names{arguments.checkpoint};
  names.insert(names.end(), arguments.others.begin(), arguments.others.end());
  return Ensemble(names, arguments.kernels);
}

/// Calls visit(batch, samples, first) for groups of samples that together are `first` .. `end` - 1.
template <class Visit>
void for_each_group(const TrainedModel& model, data::Source& source, std::int64_t first, std::int64_t end,
                    std::int64_t group, Visit&& visit) {
  data::Batch batch;
  std::vector<data::Source::Pick> picks;
  const WorkProgress progress("evaluating " + model.description().name, WorkUnit::samples,
                              static_cast<std::uint64_t>(std::max<std::int64_t>(0, end - first)));
  while (first < end) {
    const std::int64_t size = std::min(group, end - first);
    picks.resize(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) picks[static_cast<std::size_t>(i)].index = first + i;
    source.read(picks, batch);
    visit(batch, size, first);
    first += size;
    work_done(WorkUnit::samples, static_cast<std::uint64_t>(size));
    pause_output(Milliseconds(0));
  }
}

/// How far predictions are from the targets, in the units of the data set.
class Errors {
 public:
  /// Both of some samples, restored.
  void add(std::span<const float> predictions, std::span<const float> targets) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const double error = double{predictions[i]} - targets[i];
      count_ += 1;
      squares_ += error * error;
      absolute_ += std::abs(error);
      const double before = targets[i] - mean_;
      mean_ += before / count_;
      spread_ += before * (targets[i] - mean_);
    }
  }
  double rmse() const { return std::sqrt(squares_ / count_); }
  double mae() const { return absolute_ / count_; }
  /// The share of the targets' variance that is explained; 1: all of it.
  double r2() const { return spread_ > 0 ? 1 - squares_ / spread_ : 0; }

 private:
  double count_ = 0, squares_ = 0, absolute_ = 0, mean_ = 0, spread_ = 0;
};

/// The i-th value of each target channel, so that each has errors of its own: `channels` numbers of `size` values.
void add_by_channel(std::span<const float> predictions, std::span<const float> targets, std::vector<Errors>& channels,
                    std::size_t values) {
  const std::size_t size = values / channels.size();
  for (std::size_t first = 0; first < targets.size(); first += size)
    channels[first % values / size].add(predictions.subspan(first, size), targets.subspan(first, size));
}

/// Loss, and errors of each target.
void evaluate_numbers(const EvaluateArguments& arguments, Ensemble& ensemble, data::Source& source) {
  const TrainedModel& model = ensemble.first();
  std::vector<Errors> channels(static_cast<std::size_t>(source.targets()[0]));
  double loss = 0;
  for_each_group(model, source, 0, source.samples(), arguments.batch,
                 [&](const data::Batch& batch, std::int64_t samples, std::int64_t) {
                   auto predictions = ensemble.predictions(batch, samples);
                   auto targets = batch.targets;
                   for (std::size_t i = 0; i < targets.size(); ++i)
                     loss += std::pow(double{predictions[i]} - targets[i], 2);
                   source.restore_units(predictions);
                   source.restore_units(targets);
                   add_by_channel(predictions, targets, channels, static_cast<std::size_t>(source.classes()));
                 });
  loss /= static_cast<double>(source.samples() * source.classes());
  ordered_json rows = ordered_json::array();
  for (const Errors& each : channels) rows.push_back({{"rmse", each.rmse()}, {"mae", each.mae()}, {"r2", each.r2()}});
  ordered_json report{{"checkpoint", model.checkpoint().folder.string()},
                      {"step", model.checkpoint().step.value},
                      {"model", model.description().name},
                      {"samples", source.samples()},
                      {"loss", loss},
                      {"targets", rows}};
  if (ensemble.size() > 1) report["checkpoints"] = ensemble.checkpoints();
  if (arguments.as_json) return print(report);
  fmt::print("{} of step {} on {}: {} samples, loss {:.4f}\n", model.description().name, model.checkpoint().step,
             printable(source.name()), source.samples(), loss);
  for (std::size_t i = 0; i < channels.size(); ++i)
    fmt::print("target {}: RMSE {:.6g}, mean absolute error {:.6g}, R2 {:.4f}\n", i, channels[i].rmse(),
               channels[i].mae(), channels[i].r2());
}

/// `probabilities`: a row for each label.
void count(std::span<const double> probabilities, std::span<const std::int32_t> labels, std::size_t classes,
           ConfusionMatrix& confusion) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = probabilities.subspan(i * classes, classes);
    confusion.add(static_cast<std::size_t>(labels[i]),
                  static_cast<std::size_t>(std::ranges::max_element(row) - row.begin()));
  }
}

void evaluate(EvaluateArguments& arguments) {
  auto ensemble = ensemble_of(arguments);
  const TrainedModel& model = ensemble.first();
  const auto source = open_for(model, arguments);
  if (!source->targets().empty()) return evaluate_numbers(arguments, ensemble, *source);
  const bool text = model.description().sample.size() == 1;
  require<UsageError>(!arguments.with_classes || !text, "--classes is for images, and {} has a text",
                      printable(source->name()));
  const auto classes = static_cast<std::size_t>(model.description().classes);
  std::optional<ConfusionMatrix> confusion;
  if (arguments.with_classes) confusion.emplace(classes);
  model::Totals total;
  for_each_group(model, *source, 0, source->samples(), arguments.batch,
                 [&](const data::Batch& batch, std::int64_t samples, std::int64_t) {
                   const auto part = ensemble.evaluate(batch, samples);
                   total.loss += part.loss, total.correct += part.correct, total.count += part.count;
                   if (confusion) count(ensemble.probabilities(batch, samples), batch.labels, classes, *confusion);
                 });
  const double loss = total.loss / total.count, accuracy = total.correct / total.count;
  ordered_json report{{"checkpoint", model.checkpoint().folder.string()},
                      {"step", model.checkpoint().step.value},
                      {"model", model.description().name},
                      {"samples", source->samples()},
                      {"loss", loss},
                      {"accuracy", accuracy}};
  if (text) report["perplexity"] = std::exp(loss);
  if (ensemble.size() > 1) report["checkpoints"] = ensemble.checkpoints();
  if (confusion) report.update(confusion->json());
  if (arguments.as_json) return print(report);
  const auto who = ensemble.size() > 1
                       ? fmt::format("ensemble of {} models", ensemble.size())
                       : fmt::format("{} of step {}", model.description().name, model.checkpoint().step);
  fmt::print("{} on {}: {} samples, loss {:.4f}, accuracy {:.2f}%{}\n", who, printable(source->name()),
             source->samples(), loss, accuracy * 100, text ? fmt::format(", perplexity {:.3f}", std::exp(loss)) : "");
  if (confusion) fmt::print("\n{}", confusion->text());
}

struct Prediction {
  std::int64_t classification = 0;
  double probability = 0;
};

/// The likeliest classes of one row of probabilities, best first.
std::vector<Prediction> best_of(std::span<const double> probabilities, std::int64_t top) {
  std::vector<Prediction> predictions(probabilities.size());
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    predictions[i] = {static_cast<std::int64_t>(i), probabilities[i]};
  const auto kept =
      static_cast<std::ptrdiff_t>(std::min<std::size_t>(predictions.size(), static_cast<std::size_t>(top)));
  std::partial_sort(predictions.begin(), predictions.begin() + kept, predictions.end(),
                    [](const Prediction& one, const Prediction& other) { return one.probability > other.probability; });
  predictions.resize(static_cast<std::size_t>(kept));
  return predictions;
}

/// Tokens as text for people, in quotes; as numbers without a tokenizer.
std::string shown(std::span<const std::int32_t> tokens, const std::optional<tokenizer::Tokenizer>& tokenizer) {
  if (!tokenizer) return fmt::format("{}", fmt::join(tokens, " "));
  std::string text;  // a part of a text: its first space is no addition of the tokenizer
  for (const std::int32_t token : tokens) text += tokenizer->bytes(token);
  return fmt::format("\"{}\"", printable(tokenizer::with_replacements(text)));
}

/// The likeliest next tokens after each window of a text.
void predict_text(EvaluateArguments& arguments, Ensemble& ensemble, data::Source& source) {
  constexpr std::size_t kShown = 12;  // tokens of a window
  const TrainedModel& model = ensemble.first();
  const auto tokenizer = tokenizer_in(model.checkpoint());
  const auto end = std::min(source.samples(), arguments.first + arguments.count);
  const auto classes = static_cast<std::size_t>(model.description().classes);
  ordered_json rows = ordered_json::array();
  // The probabilities of all places of a window are computed, so there is one window at a time.
  for_each_group(
      model, source, arguments.first, end, 1, [&](const data::Batch& batch, std::int64_t, std::int64_t first) {
        const auto probabilities = ensemble.probabilities(batch, 1);
        const auto window = std::span(batch.tokens).last(std::min(kShown, batch.tokens.size()));
        const auto label = std::span(batch.labels).last(1);
        ordered_json predictions = ordered_json::array();
        for (const auto& prediction : best_of(std::span(probabilities).last(classes), arguments.top)) {
          const std::array token{static_cast<std::int32_t>(prediction.classification)};
          predictions.push_back(
              {{"token", token[0]}, {"text", shown(token, tokenizer)}, {"probability", prediction.probability}});
        }
        rows.push_back({{"sample", first},
                        {"end", shown(window, tokenizer)},
                        {"label", label[0]},
                        {"label_text", shown(label, tokenizer)},
                        {"predictions", predictions}});
      });
  if (arguments.as_json) return print(rows);
  for (const auto& row : rows) {
    std::string predictions;
    for (const auto& prediction : row["predictions"])
      predictions += fmt::format("  {} {:.1f}%", prediction["text"].get<std::string>(),
                                 prediction["probability"].get<double>() * 100);
    fmt::print("sample {}: ... {}\n  next {}, predicted{}\n", row["sample"].get<std::int64_t>(),
               row["end"].get<std::string>(), row["label_text"].get<std::string>(), predictions);
  }
}

/// The numbers predicted from each sample beside those to predict.
void predict_numbers(const EvaluateArguments& arguments, Ensemble& ensemble, data::Source& source) {
  constexpr std::size_t kMostShown = 6;
  const auto end = std::min(source.samples(), arguments.first + arguments.count);
  const auto values = static_cast<std::size_t>(source.classes());
  ordered_json rows = ordered_json::array();
  for_each_group(ensemble.first(), source, arguments.first, end, arguments.batch,
                 [&](const data::Batch& batch, std::int64_t samples, std::int64_t first) {
                   auto predictions = ensemble.predictions(batch, samples);
                   auto targets = batch.targets;
                   source.restore_units(predictions);
                   source.restore_units(targets);
                   const auto some = [values](const std::vector<float>& all, std::size_t i) {
                     const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i);
                     return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(values));
                   };
                   for (std::size_t i = 0; i < targets.size(); i += values)
                     rows.push_back({{"sample", first + static_cast<std::int64_t>(i / values)},
                                     {"targets", some(targets, i)},
                                     {"predictions", some(predictions, i)}});
                 });
  if (arguments.as_json) return print(rows);
  fmt::print("sample  targets  predictions\n");
  const auto shown_numbers = [&](const ordered_json& all) {
    std::string text;
    for (std::size_t i = 0; i < std::min(all.size(), kMostShown); ++i)
      text += fmt::format(" {:.6g}", all[i].get<double>());
    return all.size() > kMostShown ? text + " ..." : text;
  };
  for (const auto& row : rows)
    fmt::print("{:>6}  {}  {}\n", row["sample"].get<std::int64_t>(), shown_numbers(row["targets"]),
               shown_numbers(row["predictions"]));
}

void predict(EvaluateArguments& arguments) {
  auto ensemble = ensemble_of(arguments);
  const TrainedModel& model = ensemble.first();
  const auto source = open_for(model, arguments);
  require<UsageError>(arguments.first < source->samples(), "--first {}: {} has only {} samples, counted from 0",
                      arguments.first, printable(source->name()), source->samples());
  if (model.description().sample.size() == 1) return predict_text(arguments, ensemble, *source);
  if (!source->targets().empty()) return predict_numbers(arguments, ensemble, *source);
  const auto end = std::min(source->samples(), arguments.first + arguments.count);
  const auto classes = static_cast<std::size_t>(model.description().classes);
  ordered_json rows = ordered_json::array();
  const auto tell = [&](const data::Batch& batch, std::int64_t samples, std::int64_t first) {
    const auto probabilities = ensemble.probabilities(batch, samples);
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
      ordered_json predictions = ordered_json::array();
      for (const auto& prediction : best_of(std::span(probabilities).subspan(i * classes, classes), arguments.top))
        predictions.push_back({{"class", prediction.classification}, {"probability", prediction.probability}});
      rows.push_back({{"sample", first + static_cast<std::int64_t>(i)},
                      {"label", batch.labels[i]},
                      {"predictions", predictions},
                      {"guesses", predictions}});  // the old name, for one version
    }
  };
  for_each_group(model, *source, arguments.first, end, arguments.batch, tell);
  if (arguments.as_json) return print(rows);
  fmt::print("sample  label  predictions\n");
  for (const auto& row : rows) {
    std::string predictions;
    for (const auto& prediction : row["predictions"])
      predictions += fmt::format("  {} {:.1f}%", prediction["class"].get<std::int64_t>(),
                                 prediction["probability"].get<double>() * 100);
    const bool right = row["predictions"][0]["class"] == row["label"];
    fmt::print("{:>6}  {:>5}{}{}\n", row["sample"].get<std::int64_t>(), row["label"].get<std::int64_t>(), predictions,
               right ? "" : "  wrong");
  }
}

std::shared_ptr<EvaluateArguments> add_common(Command command) {
  auto arguments = std::make_shared<EvaluateArguments>();
  command.add_option("CKPT", arguments->checkpoint, kCheckpointHelp).required();
  command.add_option("DATA", arguments->data.train, "Data set made by \"distdl data\", or a text for --source")
      .required();
  command.add_option("--source", arguments->data.source, "Same as data.source in a job file");
  command
      .add_option("--with", arguments->others,
                  "Another checkpoint: the probabilities of all models are averaged; may be repeated")
      .repeatable("CKPT");
  command.add_option("--batch", arguments->batch, "Samples per batch").within(1, 1 << 20).show_default();
  command.add_option("--backend", arguments->kernels.backend, "Same as kernels.backend in a job file").show_default();
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  return arguments;
}
}  // namespace

void add_evaluate_commands(Command app) {
  auto evaluating = app.add_subcommand(
      "evaluate", "Evaluate a checkpoint's model on a data set: loss and accuracy, or errors of numbers");
  evaluating.examples(
      {{"distdl evaluate run other.h5", "Evaluate the newest checkpoint of a run on other data"},
       {"distdl evaluate run@best other.h5 --json", "Evaluate the checkpoint tagged \"best\", for programs"},
       {"distdl evaluate run other.h5 --classes", "Also show which classes are taken for which"},
       {"distdl evaluate run other.h5 --with small", "Evaluate the ensemble of two runs"}});
  auto evaluated = add_common(evaluating);
  evaluating.add_flag("--classes", evaluated->with_classes,
                      "Also show recall and precision of each class, and the confusion matrix");
  evaluating.callback([evaluated] { evaluate(*evaluated); });

  auto predicting = app.add_subcommand(
      "predict", "Predict classes or numbers from samples, or the next tokens of texts, with a checkpoint's model");
  auto arguments = add_common(predicting);
  predicting.add_option("--first", arguments->first, "Index of the first sample").not_negative().show_default();
  predicting.add_option("--count", arguments->count, "Number of samples").positive().show_default();
  predicting.add_option("--top", arguments->top, "Predictions per sample").positive().show_default();
  predicting.examples(
      {{"distdl predict run other.h5 --count 5", "Predict the classes of the first 5 images"},
       {"distdl predict run other.h5 --first 100 --top 1", "Show one class for each image from the 100th on"}});
  predicting.callback([arguments] { predict(*arguments); });
}

}  // namespace distdl::app
