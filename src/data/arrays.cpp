// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/arrays.hpp>
#include <distdl/data/format/labels.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/source.hpp>

namespace distdl::data {
namespace {
constexpr const char *kInputs = "inputs", *kTargets = "targets", *kArrayLabels = "labels", *kScale = "scale",
                     *kNames = "names";
constexpr std::int64_t kMostArrayBytes = 1 << 30;   // one chunk of HDF5 holds less than 4 GiB
constexpr std::int64_t kMostNamesBytes = 64 << 20;  // they are read at once
constexpr std::size_t kMostAxes = 4;                // channels, and up to three dimensions

std::int64_t channels_of(const Description& description) {
  return description.shape[0] + (description.targets.empty() ? 0 : description.targets[0]);
}

void check_array(const char* what, const tensor::Shape& shape, std::size_t least_axes) {
  const bool is_possible = shape.size() >= least_axes && shape.size() <= kMostAxes &&
                           std::ranges::all_of(shape, [](std::int64_t extent) { return extent >= 1; });
  require(is_possible, "arrays cannot have {} of the shape {}", what, tensor::to_string(shape));
  require(tensor::element_count(shape) <= kMostArrayBytes / std::int64_t{sizeof(float)},
          "arrays with {} of the shape {} are too large; each may have at most 1 GiB", what, tensor::to_string(shape));
}

std::vector<DatasetSpec> array_datasets(const Description& description) {
  const auto& [shape, targets] = std::tie(description.shape, description.targets);
  constexpr std::size_t kLeastAxes = 3;  // channels, height, width
  check_array("inputs", shape, kLeastAxes);
  if (!targets.empty()) {
    check_array("targets", targets, 1);
    require(description.classes == tensor::element_count(targets), "targets of the shape {} are not {} numbers",
            tensor::to_string(targets), description.classes);
  }
  require(description.names_bytes >= 1 && description.names_bytes <= kMostNamesBytes,
          "arrays cannot have names of {} bytes, but of 1 to {}", description.names_bytes, kMostNamesBytes);
  const auto all = [&](const tensor::Shape& one) {
    tensor::Shape whole{description.samples};
    whole.insert(whole.end(), one.begin(), one.end());
    tensor::element_count(whole);  // throws on overflow
    return whole;
  };
  std::vector<DatasetSpec> specs{{kInputs, StoredNumber::f32, all(shape)}};
  if (targets.empty())
    specs.push_back({kArrayLabels, StoredNumber::i32, {description.samples}});
  else
    specs.push_back({kTargets, StoredNumber::f32, all(targets)});
  specs.push_back({kScale, StoredNumber::f32, {channels_of(description), 2}});
  specs.push_back({kNames, StoredNumber::u8, {description.names_bytes}});
  return specs;
}

std::string text_of_names(const ArrayNames& names) {
  return nlohmann::json{{"inputs", names.inputs}, {"targets", names.targets}, {"classes", names.classes}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::byte> whole_dataset(ChunkReader& chunks) {
  std::vector<std::byte> all;
  for (std::int64_t number = 0; number < chunks.chunks(); ++number) {
    const auto bytes = chunks.chunk(number);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

[[noreturn]] void damaged_arrays(const std::string& file, const std::string& why) {
  throw StorageError(fmt::format("\"{}\" is damaged: {}; create the file again", file, why), ExitCode::corrupt);
}

ArrayNames read_names(ChunkReader& chunks, const std::string& file, const Description& description) {
  const auto bytes = whole_dataset(chunks);
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  ArrayNames names;
  try {
    const auto json = nlohmann::json::parse(text, text + bytes.size());
    json.at("inputs").get_to(names.inputs);
    json.at("targets").get_to(names.targets);
    json.at("classes").get_to(names.classes);
  } catch (const nlohmann::json::exception&) {
    damaged_arrays(file, "its names are no object of JSON with inputs, targets and classes");
  }
  const bool has_targets = !description.targets.empty();
  const auto counts = std::array{std::ssize(names.inputs), std::ssize(names.targets), std::ssize(names.classes)};
  if (counts != std::array<std::ptrdiff_t, 3>{description.shape[0], has_targets ? description.targets[0] : 0,
                                              has_targets ? 0 : description.classes})
    damaged_arrays(file, "it does not have a name for each channel and class");
  return names;
}

ArrayScale read_scale(ChunkReader& chunks, const std::string& file) {
  const auto bytes = whole_dataset(chunks);
  const auto* const pairs = reinterpret_cast<const float*>(bytes.data());
  ArrayScale scale;
  for (std::size_t i = 0; i + 1 < bytes.size() / sizeof(float); i += 2) {
    scale.mean.push_back(pairs[i]);
    scale.deviation.push_back(pairs[i + 1]);
    if (!std::isfinite(pairs[i]) || !std::isfinite(pairs[i + 1]) || pairs[i + 1] <= 0)
      damaged_arrays(
          file, fmt::format("mean {} and deviation {} of channel {} are impossible", pairs[i], pairs[i + 1], i / 2));
  }
  return scale;
}

std::span<const float> array_at(ChunkReader& chunks, std::int64_t index) {
  require(index >= 0 && index < chunks.rows(), "sample {} is outside the data set of {}", index, chunks.rows());
  const auto bytes = chunks.chunk(index / chunks.rows_per_chunk());
  const auto skip = static_cast<std::size_t>(index % chunks.rows_per_chunk()) * chunks.row_bytes();
  return {reinterpret_cast<const float*>(bytes.data() + skip), chunks.row_bytes() / sizeof(float)};
}
}  // namespace

struct ArraySet::Impl {
  Description description;
  ArrayNames names;
  ArrayScale scale;
  std::vector<std::int32_t> labels;
  ChunkReader inputs;
  std::optional<ChunkReader> targets;
  std::string digest;
};

ArraySet::ArraySet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ArraySet::ArraySet(ArraySet&&) noexcept = default;
ArraySet& ArraySet::operator=(ArraySet&&) noexcept = default;
ArraySet::~ArraySet() = default;

ArraySet ArraySet::open(const std::filesystem::path& file, std::int64_t cache_mib) {
  OpenSet set = open_set(file);
  require(set.description.kind == kArrays,
          "\"{}\" contains {}, but arrays are expected; make such a set with \"distdl data import table\" or \"distdl "
          "data import fields\"",
          file.string(), set.description.kind);
  const auto specs = datasets_of(set.description);
  const bool has_targets = !set.description.targets.empty();
  const std::size_t cache = cache_bytes(cache_mib) / (has_targets ? 2 : 1);
  auto inputs = open_chunks(set, file, specs[0], cache), second = open_chunks(set, file, specs[1], cache);
  auto scale_chunks = open_chunks(set, file, specs[2], 0), name_chunks = open_chunks(set, file, specs[3], 0);
  auto names = read_names(name_chunks, file.string(), set.description);
  auto scale = read_scale(scale_chunks, file.string());
  auto digest =
      digest_of(set.description, std::array<const ChunkReader*, 4>{&inputs, &second, &scale_chunks, &name_chunks});
  std::vector<std::int32_t> labels;
  std::optional<ChunkReader> targets;
  if (has_targets)
    targets.emplace(std::move(second));
  else
    labels = read_labels(second, file.string(), set.description.classes);
  return ArraySet(
      std::make_unique<Impl>(Impl{std::move(set.description), std::move(names), std::move(scale), std::move(labels),
                                  std::move(inputs), std::move(targets), std::move(digest)}));
}

const Description& ArraySet::description() const noexcept {
  return impl_->description;
}
const std::string& ArraySet::digest() const noexcept {
  return impl_->digest;
}
std::span<const std::int32_t> ArraySet::labels() const noexcept {
  return impl_->labels;
}
const ArrayNames& ArraySet::names() const noexcept {
  return impl_->names;
}
const ArrayScale& ArraySet::scale() const noexcept {
  return impl_->scale;
}
std::span<const float> ArraySet::inputs(std::int64_t index) {
  return array_at(impl_->inputs, index);
}
std::span<const float> ArraySet::targets(std::int64_t index) {
  return impl_->targets ? array_at(*impl_->targets, index) : std::span<const float>();
}

namespace {
/// Sums of one channel, by Welford's method: "Note on a method for calculating corrected sums of squares", 1962.
struct Moments {
  double count = 0, mean = 0, squares = 0;
  void add(double value) {
    count += 1;
    const double before = value - mean;
    mean += before / count;
    squares += before * (value - mean);
  }
  /// 1 for a channel with one value: zero would divide.
  float deviation() const {
    const double found = count > 0 ? std::sqrt(squares / count) : 0;
    return found > 1e-12 * (1 + std::abs(mean)) ? static_cast<float>(found) : 1.0f;
  }
};
}  // namespace

struct ArraySetWriter::Impl {
  Description about;
  std::string names;
  SetWriter writer;
  const ArrayScale* like;
  std::vector<Moments> moments;  ///< for the inputs' channels, and then for the targets'

  static Description completed(Description set, const ArrayNames& all, const std::string& text) {
    set.kind = kArrays;
    set.names_bytes = static_cast<std::int64_t>(text.size());
    set.classes = set.targets.empty() ? std::ssize(all.classes) : tensor::element_count(set.targets);
    return set;
  }
  Impl(const std::filesystem::path& file, Description given, const ArrayNames& all, const ArrayScale* scale,
       Overwrite overwrite)
      : about(std::move(given)),
        names(text_of_names(all)),
        writer(file, about = completed(about, all, names), overwrite),
        like(scale),
        moments(static_cast<std::size_t>(channels_of(about))) {}

  void add(std::span<const float> values, const tensor::Shape& shape, std::size_t first) {
    const auto channels = static_cast<std::size_t>(shape[0]);
    const auto size = static_cast<std::size_t>(tensor::element_count(shape)) / channels;
    for (std::size_t i = 0; i < values.size(); ++i) moments[first + i / size % channels].add(values[i]);
  }
};

ArraySetWriter::ArraySetWriter(const std::filesystem::path& file, Description about, const ArrayNames& names,
                               const ArrayScale* like, Overwrite overwrite)
    : impl_(std::make_unique<Impl>(file, std::move(about), names, like, overwrite)) {}
ArraySetWriter::~ArraySetWriter() = default;

void ArraySetWriter::append_inputs(std::span<const float> values) {
  impl_->add(values, impl_->about.shape, 0);
  impl_->writer.append(kInputs, std::as_bytes(values));
}

void ArraySetWriter::append_targets(std::span<const float> values) {
  impl_->add(values, impl_->about.targets, static_cast<std::size_t>(impl_->about.shape[0]));
  impl_->writer.append(kTargets, std::as_bytes(values));
}

void ArraySetWriter::append_labels(std::span<const std::int32_t> labels) {
  impl_->writer.append(kArrayLabels, std::as_bytes(labels));
}

Description ArraySetWriter::commit() {
  std::vector<float> pairs;
  for (std::size_t i = 0; i < impl_->moments.size(); ++i) {
    pairs.push_back(impl_->like ? impl_->like->mean.at(i) : static_cast<float>(impl_->moments[i].mean));
    pairs.push_back(impl_->like ? impl_->like->deviation.at(i) : impl_->moments[i].deviation());
  }
  impl_->writer.append(kScale, std::as_bytes(std::span(pairs)));
  impl_->writer.append(kNames, std::as_bytes(std::span(impl_->names)));
  return impl_->writer.commit();
}

namespace {
/// Gives (value - mean) / deviation, those of the element's channel.
void normalize(std::span<const float> values, std::int64_t channels, const float* mean, const float* deviation,
               float* out) {
  const std::size_t size = values.size() / static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = (values[i] - mean[i / size]) / deviation[i / size];
}

class Arrays final : public Source {
 public:
  explicit Arrays(const SetUse& use)
      : set_(ArraySet::open(use.file, use.options.cache_mib)),
        name_(fmt::format("\"{}\"", use.file)),
        scale_(set_.scale()),
        first_(use.first),
        count_(use.count) {
    require(
        use.options.normalize != Normalization::imagenet,
        "data.normalize is \"imagenet\", which is for images, but {} contains arrays; set it to \"set\" or \"none\"",
        name_);
    require(use.options.crop == 0 && !use.options.mirror,
            "data.crop and data.mirror change images, but {} contains arrays; leave them out", name_);
    std::string about = text_of_names(set_.names());
    if (use.options.normalize == Normalization::none) {
      std::ranges::fill(scale_.mean, 0.0f);
      std::ranges::fill(scale_.deviation, 1.0f);
    }
    for (const auto* const all : {&scale_.mean, &scale_.deviation})
      about.append(reinterpret_cast<const char*>(all->data()), all->size() * sizeof(float));
    constexpr std::size_t kDigits = 16;
    Sha256 sum;
    sum.update(std::as_bytes(std::span(about)));
    units_ = sum.hex().substr(0, kDigits);
  }
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return set_.description().shape; }
  std::int64_t classes() const override { return set_.description().classes; }
  std::int64_t labels_per_sample() const override { return targets().empty() ? 1 : classes(); }
  tensor::Shape targets() const override { return set_.description().targets; }
  std::int64_t samples() const override { return count_; }
  const std::string& digest() const override { return set_.digest(); }
  std::string units() const override { return units_; }

  void read(std::span<const Pick> picks, Batch& batch) override {
    const auto size = static_cast<std::size_t>(tensor::element_count(shape()));
    const auto& target_shape = set_.description().targets;
    const auto wanted = target_shape.empty() ? 0 : static_cast<std::size_t>(classes());
    batch.values.resize(picks.size() * size);
    batch.targets.resize(picks.size() * wanted);
    batch.labels.resize(wanted == 0 ? picks.size() : 0);
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const std::int64_t index = first_ + picks[i].index;
      normalize(set_.inputs(index), shape()[0], scale_.mean.data(), scale_.deviation.data(),
                batch.values.data() + i * size);
      if (wanted == 0)
        batch.labels[i] = set_.labels()[static_cast<std::size_t>(index)];
      else
        normalize(set_.targets(index), target_shape[0], target_mean(), target_deviation(),
                  batch.targets.data() + i * wanted);
    }
  }

  void restore_units(std::span<float> predictions) const override {
    if (targets().empty()) return;
    const auto wanted = static_cast<std::size_t>(classes()), size = wanted / static_cast<std::size_t>(targets()[0]);
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const std::size_t channel = i % wanted / size;
      predictions[i] = predictions[i] * target_deviation()[channel] + target_mean()[channel];
    }
  }

 private:
  const float* target_mean() const { return scale_.mean.data() + shape()[0]; }
  const float* target_deviation() const { return scale_.deviation.data() + shape()[0]; }

  ArraySet set_;
  std::string name_, units_;
  ArrayScale scale_;
  std::int64_t first_, count_;
};

std::vector<std::int32_t> array_labels(const std::filesystem::path& file) {
  const auto set = ArraySet::open(file, 0);
  return {set.labels().begin(), set.labels().end()};
}

void show_arrays(const std::filesystem::path& file, std::int64_t count,
                 const std::function<void(const ShownSample&)>& look) {
  auto set = ArraySet::open(file, 1);
  for (std::int64_t i = 0; i < std::min(count, set.description().samples); ++i) {
    Numbers numbers{set.inputs(i), set.targets(i)};
    if (!set.labels().empty()) numbers.label = set.labels()[static_cast<std::size_t>(i)];
    look(numbers);
  }
}
}  // namespace

Kind arrays_kind() {
  return {.name = kArrays,
          .is_sequence = false,
          .is_normalized = false,
          .datasets = &array_datasets,
          .open = [](const SetUse& use) -> std::unique_ptr<Source> { return std::make_unique<Arrays>(use); },
          .labels = &array_labels,
          .show = &show_arrays};
}

}  // namespace distdl::data
