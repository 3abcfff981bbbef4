// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <distdl/app/model/new_job.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/model/models.hpp>
#include <distdl/observe/kept_job.hpp>

namespace distdl::app {
namespace {

/// A reasonable training of a model, before the size of the set is known.
struct Usual {
  std::int64_t microbatches, microbatch_size;
  double rate;         ///< for this global batch
  std::int64_t steps;  ///< after which such a model has learnt most
  std::int64_t most_epochs;
};
constexpr Usual kSmallNet{12, 8, 0.05, 2000, 50}, kResnet{8, 16, 0.1, 10000, 90}, kVit{8, 16, 5e-4, 20000, 200};

/// A gpt for a text of up to so many tokens.
struct GptSize {
  std::int64_t tokens, width, layers, heads, context;
  Usual usual;
};
constexpr std::int64_t kAnyTokens = std::numeric_limits<std::int64_t>::max();
constexpr GptSize kGptSizes[] = {{100'000, 64, 2, 2, 64, {8, 4, 3e-3, 1000, 20}},
                                 {10'000'000, 128, 4, 4, 128, {8, 4, 2e-3, 3000, 20}},
                                 {1'000'000'000, 384, 6, 6, 256, {8, 8, 1e-3, 10000, 10}},
                                 {kAnyTokens, 768, 12, 12, 1024, {16, 8, 6e-4, 50000, 2}}};

double two_digits(double value) {
  return std::stod(fmt::format("{:.1e}", value));
}

class Author {
 public:
  Author(const NewJobData& data, std::string model)
      : data_(data), is_sequence_(data::find_kind(data.set.kind).is_sequence) {
    job.recipe.model.name = model.empty() ? fitting_model() : std::move(model);
  }

  config::Job job;

  void choose() {
    choose_run();
    choose_data();
    choose_model();
    choose_batch();
    choose_optimizer();
    choose_length();
    choose_checkpoints();
  }

  std::string text(const std::string& file) const {
    const auto values = observe::keys_of_job(config::to_toml(job));
    std::string text = head(file), section;
    for (const auto& [key, comment] : lines_) {
      const auto dot = key.find('.');
      if (key.substr(0, dot) != section) text += fmt::format("\n[{}]\n", section = key.substr(0, dot));
      const auto line = fmt::format("{} = {}", key.substr(dot + 1), values.at(key));
      text += comment.empty() ? line + "\n" : fmt::format("{:<26} # {}\n", line, comment);
    }
    return text;
  }

 private:
  const std::string& model() const { return job.recipe.model.name; }
  bool has_pixels() const { return data_.set.shape.size() == 3; }  // (C, H, W)
  std::int64_t height() const { return has_pixels() ? data_.set.shape[1] : 0; }
  std::int64_t width() const { return has_pixels() ? data_.set.shape[2] : 0; }
  std::int64_t longest_side() const { return std::max(height(), width()); }
  bool has_colours() const { return has_pixels() && data_.set.shape[0] > 1; }
  bool has_images() const { return data::find_kind(data_.set.kind).is_normalized; }

  std::string fitting_model() const {
    constexpr std::int64_t kSmall = 64, kLeast = 4;  // pixels
    if (is_sequence_) return "gpt";
    if (data_.set.targets.size() == 3 && has_pixels()) return "fcn";
    if (std::min(height(), width()) < kLeast) return "mlp";
    return !has_colours() && longest_side() <= kSmall ? "lenet" : "resnet18";
  }

  void put(const std::string& key, const std::string& comment = "") { lines_.push_back({key, comment}); }

  std::string head(const std::string& file) const {
    const auto& set = data_.set;
    const auto what = is_sequence_ ? fmt::format("{} {} of a vocabulary of {}", set.samples, set.kind, set.classes)
                                   : fmt::format("{} {} of {} {} {} {}", set.samples, set.kind,
                                                 tensor::to_string(set.shape), set.targets.empty() ? "in" : "with",
                                                 set.classes, set.targets.empty() ? "classes" : "numbers to predict");
    return fmt::format(
        "# Written by \"distdl init\" for {}:\n#   {}\n{}# A start, not the best possible: change what you know "
        "better.\n"
        "#   distdl config --check {}     checks it\n#   distdl run --local -n 2 {}   trains on this machine\n"
        "# All keys, explained: distdl config --defaults\n",
        printable(data_.train), what, remark_, printable(file), printable(file));
  }

  void choose_run() {
    job.run_dir = fmt::format("run-{}-{}", std::filesystem::path(data_.train).stem().string(), model());
    put("run.dir", "checkpoints, logs, metrics.jsonl, result.json");
  }

  void choose_data() {
    auto& data = job.recipe.data;
    data.train = data_.train;
    data.validation = data_.validation;
    put("data.train");
    if (!data_.validation.empty())
      put("data.validation", "evaluated after each epoch");
    else
      choose_holdout();
    training_ = data_.set.samples - data.holdout;
    constexpr std::int64_t kCropShare = 8;  // of CIFAR's images 4 pixels
    if (!has_images() || !has_colours() || model() == "mlp" || model() == "lenet") return;
    const bool is_cropped = data_.set.kind == data::kEncodedImages;  // at random, by data.crop_area
    data.crop = is_cropped ? 0 : longest_side() / kCropShare;
    data.mirror = true;
    if (!is_cropped) put("data.crop", "images are shifted by up to so many pixels");
    put("data.mirror", "false, if left and right differ in meaning, as in digits and letters");
  }

  void choose_holdout() {
    constexpr std::int64_t kShare = 10, kMostSamples = 10'000, kMostTokens = 1'000'000, kLeast = 20;
    auto& holdout = job.recipe.data.holdout;
    if (data_.set.samples >= kLeast)
      holdout = std::min(data_.set.samples / kShare, is_sequence_ ? kMostTokens : kMostSamples);
    if (const auto classes = look_at_labels(holdout); classes > 0) {
      holdout = 0;
      return put("data.holdout", fmt::format("its last tenth is not like the rest: {} classes are only in one of them, "
                                             "as in sorted files; name another set in data.validation",
                                             classes));
    }
    put("data.holdout", holdout > 0 ? fmt::format("the last {} are for evaluation, not for training", data_.set.kind)
                                    : "too few to hold out any: nothing is evaluated");
  }

  /// Returns the number of classes that the last images would have alone, or not at all. Notes uneven classes.
  std::int64_t look_at_labels(std::int64_t holdout) {
    constexpr std::int64_t kFew = 5, kUneven = 3;
    const auto classes = static_cast<std::size_t>(data_.set.classes);
    std::vector<std::int64_t> all(classes), last(classes);
    const auto first = data_.labels.size() - std::min(static_cast<std::size_t>(holdout), data_.labels.size());
    for (std::size_t i = 0; i < data_.labels.size(); ++i) {
      ++all[static_cast<std::size_t>(data_.labels[i])];
      if (i >= first) ++last[static_cast<std::size_t>(data_.labels[i])];
    }
    if (data_.labels.empty()) return 0;
    const auto [least, most] = std::ranges::minmax(all);
    if (least * kUneven < most)
      remark_ = fmt::format("# Classes are uneven, from {} to {} {}: the accuracy alone says little.\n", least, most,
                            data_.set.kind);
    std::int64_t alone = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      const auto expected = all[i] * holdout / data_.set.samples;
      alone += expected >= kFew && (last[i] == 0 || last[i] == all[i]);
    }
    return alone;
  }

  void choose_model() {
    put("model.name",
        is_sequence_ ? "others: docs/models.md" : "or mlp, lenet, resnet18, resnet34, resnet50, vit, fcn");
    if (model() == "gpt") choose_gpt();
    if (model() == "vit") choose_vit();
    if (model() == "lenet" || model() == "mlp" || model() == "fcn") {
      usual_ = kSmallNet;
      if (model() == "fcn") job.recipe.model.hidden = {32, 32};
      put("model.hidden",
          model() == "fcn" ? "channels of the hidden convolutions" : "widths of the hidden linear layers");
    }
    if (model().starts_with("resnet")) usual_ = kResnet;
  }

  void choose_gpt() {
    constexpr std::int64_t kWindows = 64, kShortest = 8;
    const auto& size = *std::ranges::find_if(kGptSizes, [&](const auto& each) { return training_ <= each.tokens; });
    auto& options = job.recipe.model;
    options.width = size.width;
    options.layers = size.layers;
    options.heads = size.heads;
    const auto fitting = std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, training_ / kWindows)));
    options.context = std::clamp(static_cast<std::int64_t>(fitting), kShortest, size.context);
    usual_ = size.usual;
    put("model.context", "tokens that it sees at once");
    put("model.width", "for as many tokens as these; the larger, the slower");
    put("model.layers");
    put("model.heads", "must divide the width");
  }

  void choose_vit() {
    constexpr std::int64_t kLargest = 16, kPlaces = 7, kMostPlaces = 1024, kSmall = 64;
    if (!has_pixels()) return;  // the model says that it takes images
    auto& options = job.recipe.model;
    const auto common = std::gcd(height(), width());
    options.patch = std::clamp(longest_side() / kPlaces, std::int64_t{1}, kLargest);
    while (common % options.patch != 0) --options.patch;
    require(
        height() * width() / (options.patch * options.patch) <= kMostPlaces,
        "images of {} do not divide into fewer than {} square patches, which model \"vit\" needs; leave out --model, "
        "or import images of another size",
        tensor::to_string(data_.set.shape), kMostPlaces);
    const bool is_small = longest_side() <= kSmall;
    options.width = is_small ? 192 : 384;
    options.layers = is_small ? 6 : 12;
    options.heads = is_small ? 3 : 6;
    usual_ = kVit;
    put("model.patch", "pixels; must divide height and width");
    put("model.width");
    put("model.layers");
    put("model.heads", "must divide the width");
  }

  /// Samples of an epoch.
  std::int64_t samples() const {
    return is_sequence_ ? std::max<std::int64_t>(1, training_ / job.recipe.model.context) : training_;
  }
  std::int64_t global_batch() const { return job.recipe.parallel.microbatches * job.recipe.parallel.microbatch_size; }

  void choose_batch() {
    constexpr std::int64_t kLeastSteps = 4;  // of an epoch
    auto& parallel = job.recipe.parallel;
    parallel.microbatches = usual_.microbatches;
    parallel.microbatch_size = usual_.microbatch_size;
    while (parallel.microbatch_size > 1 && global_batch() * kLeastSteps > samples()) parallel.microbatch_size /= 2;
    put("parallel.microbatches", usual_.microbatches == kSmallNet.microbatches
                                     ? "1, 2, 3, 4, 6 or 12 ranks share them evenly, with the same result"
                                     : "1, 2, 4 or 8 ranks share them evenly, with the same result");
    put("parallel.microbatch_size", fmt::format("samples; a step has {}", global_batch()));
  }

  void choose_optimizer() {
    auto& optim = job.recipe.optim;
    const bool is_transformer = model() == "gpt" || model() == "vit";
    const double share =
        static_cast<double>(global_batch()) / static_cast<double>(usual_.microbatches * usual_.microbatch_size);
    if (is_transformer) {
      optim.name = "adamw";
      optim.weight_decay = 0.1;
      optim.clip_norm = 1;
    } else if (model().starts_with("resnet")) {
      optim.weight_decay = 5e-4;
      optim.nesterov = true;
    }
    optim.learning_rate = two_digits(usual_.rate * (is_transformer ? std::sqrt(share) : share));
    put("optim.name");
    put("optim.learning_rate",
        fmt::format("the peak, for {} samples a step; if the loss rises or is nan: a third", global_batch()));
    if (is_transformer)
      put("optim.clip_norm");
    else
      put("optim.momentum");
    if (optim.nesterov) put("optim.nesterov");
    if (optim.weight_decay > 0) put("optim.weight_decay");
    put("optim.schedule");
  }

  void choose_length() {
    constexpr std::int64_t kLeastEpochs = 1, kWarmupShare = 20;
    const std::int64_t a_epoch = std::max<std::int64_t>(1, samples() / global_batch());
    const auto wanted = (usual_.steps + a_epoch - 1) / a_epoch;
    job.recipe.train.epochs = std::clamp(wanted, kLeastEpochs, usual_.most_epochs);
    const auto steps = job.recipe.train.epochs * a_epoch;
    job.recipe.optim.warmup_steps = std::min<std::int64_t>(500, steps / kWarmupShare);
    put("optim.warmup_steps");
    put("train.epochs", fmt::format("of about {} steps each; to try it out: --set train.steps=20", a_epoch));
  }

  void choose_checkpoints() {
    job.recipe.checkpoint.every = checkpoint::Interval::by_cost();
    put("checkpoint.every", "by what a save costs; or a number of steps");
  }

  struct Line {
    std::string key, comment;
  };

  const NewJobData& data_;
  bool is_sequence_;
  Usual usual_ = kSmallNet;
  std::int64_t training_ = 0;
  std::string remark_;
  std::vector<Line> lines_;
};
}  // namespace

NewJob new_job(const NewJobData& data, const std::string& model, const std::string& file) {
  Author author(data, model);
  author.choose();
  const auto& options = author.job.recipe.model;
  const bool is_sequence = data::find_kind(data.set.kind).is_sequence;
  model::describe_model(options, is_sequence ? tensor::Shape{options.context} : data.set.shape, data.set.classes,
                        data.set.targets);
  return {author.job, author.text(file)};
}

}  // namespace distdl::app
