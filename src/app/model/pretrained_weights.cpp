// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/model/llama_names.hpp>
#include <distdl/app/model/position_grid.hpp>
#include <distdl/app/model/pretrained_weights.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/checkpoint/fit.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::app {
namespace {
using checkpoint::SafetensorsTensor;
using tensor::DataType;
using tensor::TensorView;

constexpr std::string_view kWrappers[] = {"module.", "_orig_mod.", "model.", "transformer."};
constexpr std::string_view kBuffers[] = {"num_batches_tracked", ".attn.bias", ".attn.masked_bias",
                                         "rotary_emb.inv_freq"};
constexpr std::string_view kPositions = "pos_embed.weight";  // of a vision transformer
constexpr std::string_view kNeverSquare = ".c_attn.weight";
constexpr std::size_t kNames = 5;  // that an error lists of one kind

template <class Ends>
bool ends_with_one_of(std::string_view name, const Ends& ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// Part that the names of one tensor have in common in the model and in a file.
std::string key_of(std::string_view name) {
  const auto strip = [&](std::string_view wrapper) {
    if (!name.starts_with(wrapper)) return false;
    name.remove_prefix(wrapper.size());
    return true;
  };
  while (std::ranges::any_of(kWrappers, strip)) {
  }
  if (name.ends_with(".weight")) name.remove_suffix(std::string_view(".weight").size());
  return std::string(name);
}

/// A tensor's name by its layer. A shared one has a name for each layer that shares it.
std::string name_in_layer(const model::Description& model, const model::ModelTensor& tensor) {
  return model.layers[tensor.layer].name + "." + tensor.spec.name;
}

/// The place of a tensor of a file in the model.
struct Place {
  const TensorView* view;
  std::size_t part = 0;  ///< number of this part, where several are its rows, one behind the other
  std::size_t parts = 1;
};

/// The places of a model's tensor by the keys of the names that files have for it.
std::vector<std::pair<std::string, Place>> places_of(const model::Description& model,
                                                     const model::ModelTensor& tensor) {
  const auto name = name_in_layer(model, tensor);
  std::vector<std::pair<std::string, Place>> places{{key_of(name), {&tensor.view}}};
  if (model.name != "gpt") return places;
  const auto others = llama_names(name);
  for (std::size_t part = 0; part < others.size(); ++part)
    places.emplace_back(key_of(others[part]), Place{&tensor.view, part, others.size()});
  return places;
}

/// Without extents of 1 that come before `dimensions` others.
tensor::Shape squeezed(tensor::Shape shape, std::size_t dimensions) {
  while (shape.size() > dimensions && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

bool is_float(DataType type) {
  return type == DataType::float32 || type == DataType::float64 || type == DataType::float16 ||
         type == DataType::bfloat16;
}

/// The patches of a vision transformer.
PositionGrid patches_of(const model::Description& model) {
  const auto* const patches = std::get_if<kernels::Conv2d>(&model.layers.front().spec);
  if (model.name != "vit" || patches == nullptr) return {};
  return {model.sample[1] / patches->kernel, model.sample[2] / patches->kernel};
}

bool is_turned(const TensorView& view, const SafetensorsTensor& found) {
  return view.shape.size() == 2 && found.entry.shape == tensor::Shape{view.shape[1], view.shape[0]};
}

/// How a model's tensors and a file's belong together.
class Matching {
 public:
  Matching(const model::Description& model, const model::ModelTensors& tensors,
           const checkpoint::SafetensorsFile& found, const checkpoint::Patterns& without)
      : without_(without), grid_(patches_of(model)) {
    for (const auto& tensor : tensors.tensors) {  // a shared one under both names
      for (auto& [key, place] : places_of(model, tensor)) wanted_.emplace(std::move(key), place);
      if (is_without(tensor.view.name)) left_out_.insert(tensor.view.name);
    }
    for (const auto& tensor : found.tensors) add(tensor);
    for (const auto& [name, type] : found.others) add_other(name, type);
    for (const auto& view : tensors.layout.tensors())
      if (!found_.contains(view.name) && !left_out_.contains(view.name)) missing_.push_back(view.name);
    find_layout();
    for (const auto& [name, match] : found_) {
      for (const auto* tensor : match.tensors)
        if (!fits(*match.view, *tensor)) add_problem(*match.view, *tensor, "");
      check_parts(match);
    }
  }

  struct Match {
    const TensorView* view = nullptr;
    std::vector<const SafetensorsTensor*> tensors;  ///< several: the model's layers share what is written twice
    std::vector<const SafetensorsTensor*> parts;    ///< or its rows, one behind the other
  };
  const std::map<std::string, Match>& found() const { return found_; }
  std::vector<std::string> left_out() const { return {left_out_.begin(), left_out_.end()}; }
  bool turns(const TensorView& view) const { return turned_ && is_conv1d(view.name); }
  /// The grid of the positions of another image size in the file; {0, 0}: these are no such positions.
  PositionGrid other_grid(const TensorView& view, const SafetensorsTensor& tensor) const {
    const auto shape = squeezed(tensor.entry.shape, view.shape.size());
    const bool is_of_others = view.name == kPositions && grid_ != PositionGrid{} && shape.size() == 2 &&
                              shape[0] != view.shape[0] && shape[1] == view.shape[1];
    return is_of_others ? square_grid(shape[0]) : PositionGrid{};
  }
  const PositionGrid& grid() const { return grid_; }
  const std::set<std::string>& used_patterns() const { return used_patterns_; }

  /// All that does not fit; empty if everything does.
  std::string problem() const {
    std::vector<std::string> parts;
    if (!missing_.empty()) parts.push_back("it lacks " + checkpoint::shortened(missing_, kNames));
    if (!unknown_.empty())
      parts.push_back(fmt::format("it has {}, which the model does not have", checkpoint::shortened(unknown_, kNames)));
    for (std::size_t i = 0; i < std::min(problems_.size(), kNames); ++i) parts.push_back(problems_[i]);
    if (problems_.size() > kNames) parts.push_back(fmt::format("{} more have other shapes", problems_.size() - kNames));
    return fmt::format("{}", fmt::join(parts, "; "));
  }

 private:
  bool is_without(const std::string& name) {
    bool matches = false;
    for (const auto& pattern : without_)
      if (checkpoint::matches(pattern, name)) {
        used_patterns_.insert(pattern);
        matches = true;
      }
    return matches;
  }

  void add(const SafetensorsTensor& tensor) {
    const std::string& name = tensor.entry.name;
    const auto wanted = wanted_.find(key_of(name));
    if (wanted == wanted_.end()) {
      if (!ends_with_one_of(name, kBuffers) && !is_without(name)) unknown_.push_back(name);
      return;
    }
    const auto [view, part, parts] = wanted->second;
    if (left_out_.contains(view->name)) return;
    auto& match = found_[view->name];
    match.view = view;
    if (parts == 1) return match.tensors.push_back(&tensor);
    match.parts.resize(parts);
    match.parts[part] = &tensor;
  }

  void add_problem(const TensorView& view, const SafetensorsTensor& tensor, std::string_view about) {
    problems_.push_back(fmt::format("\"{}\" is {} {}, but {}the model has f32 {}", tensor.entry.name,
                                    tensor::code_of(tensor.entry.dtype), tensor::to_string(tensor.entry.shape), about,
                                    tensor::to_string(view.shape)));
  }

  void check_parts(const Match& match) {
    if (match.parts.empty()) return;
    const auto all = std::ranges::count_if(match.parts, [](const auto* part) { return part != nullptr; });
    if (all < std::ssize(match.parts) || !match.tensors.empty())
      return problems_.push_back(fmt::format("of \"{}\" it has {} of {} parts{}", match.view->name, all,
                                             match.parts.size(), match.tensors.empty() ? "" : ", and the whole"));
    std::int64_t rows = 0;
    for (const auto* part : match.parts) {
      auto shape = part->entry.shape;
      if (!is_float(part->entry.dtype) || shape.size() != match.view->shape.size() ||
          !std::equal(shape.begin() + 1, shape.end(), match.view->shape.begin() + 1))
        return add_problem(*match.view, *part, "with its other parts ");
      rows += shape[0];
    }
    // The last ones are keys and values, or gate and value, which are of one size.
    const auto &last = **std::prev(match.parts.end()), &before = **std::prev(match.parts.end(), 2);
    if (rows != match.view->shape[0] || last.entry.shape != before.entry.shape)
      add_problem(*match.view, last, fmt::format("its {} parts have {} rows, and ", match.parts.size(), rows));
  }

  /// A tensor of a type that no weight has.
  void add_other(const std::string& name, const std::string& type) {
    if (ends_with_one_of(name, kBuffers) || is_without(name)) return;
    const auto wanted = wanted_.find(key_of(name));
    if (wanted == wanted_.end())
      unknown_.push_back(name);
    else if (!left_out_.contains(wanted->second.view->name))
      problems_.push_back(fmt::format("\"{}\" is of type {}, but the model has f32 {}", name, type,
                                      tensor::to_string(wanted->second.view->shape)));
  }

  void find_layout() {
    // Only the projection to queries, keys and values is never square.
    turned_ = std::ranges::any_of(found_, [](const auto& each) {
      return each.first.ends_with(kNeverSquare) && !each.second.tensors.empty() &&
             is_turned(*each.second.view, *each.second.tensors.front());
    });
  }

  bool fits(const TensorView& view, const SafetensorsTensor& tensor) const {
    const auto& entry = tensor.entry;
    if (!is_float(entry.dtype)) return false;
    if (turns(view)) return is_turned(view, tensor);
    const auto shape = squeezed(entry.shape, view.shape.size());
    const bool is_longer =
        view.name == "wpe.weight" && shape.size() == 2 && shape[0] > view.shape[0] && shape[1] == view.shape[1];
    return shape == view.shape || is_longer || other_grid(view, tensor) != PositionGrid{};
  }

  const checkpoint::Patterns& without_;
  PositionGrid grid_;                    // of the model's patches
  std::map<std::string, Place> wanted_;  // by key_of()
  std::map<std::string, Match> found_;   // by the model's name
  std::set<std::string> left_out_, used_patterns_;
  std::vector<std::string> missing_, unknown_, problems_;
  bool turned_ = false;
};

/// Copies `count` elements, (rows, columns) of the model, of which `bytes` hold the transposed if `turned`.
void convert(DataType dtype, const std::vector<std::byte>& bytes, std::size_t count, const TensorView& view,
             bool turned, float* out) {
  const std::size_t element = tensor::size_of(dtype);
  const std::size_t columns = turned ? static_cast<std::size_t>(view.shape[1]) : 1, rows = count / columns;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      out[row * columns + column] =
          static_cast<float>(tensor::value_of(dtype, &bytes[(turned ? column * rows + row : row) * element]));
}
}  // namespace

namespace {
constexpr const char* kWholes[] = {"model.safetensors", "pytorch_model.bin"};
constexpr const char* kIndex = ".index.json";  // after one of them: of shards

/// The names of the shards in a folder of Hugging Face, by its index.
std::set<std::string> shards_in(const std::filesystem::path& index) {
  constexpr std::size_t kMost = 64 << 20;
  const auto refuse = [&](const std::string& why) {
    throw StorageError(fmt::format("\"{}\" is damaged: {}; download it again", index.string(), why), ExitCode::corrupt);
  };
  const auto json = nlohmann::json::parse(read_regular(resolved(index), kMost), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse("a JSON object with the member \"weight_map\" was expected");
  std::set<std::string> names;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    const auto name = shard.is_string() ? shard.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
      refuse(fmt::format("the shard of \"{}\" is no name of a file in this folder", tensor));
    names.insert(name);
  }
  if (names.empty()) refuse("it lists no shard");
  return names;
}

/// The files of weights that a user means by a file or a folder.
std::vector<std::filesystem::path> parts_of(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_directory(file, error)) return {file};
  for (const std::string whole : kWholes) {
    if (std::filesystem::exists(file / (whole + kIndex), error)) {
      std::vector<std::filesystem::path> parts;
      for (const auto& shard : shards_in(file / (whole + kIndex))) parts.push_back(file / shard);
      return parts;
    }
    if (std::filesystem::exists(file / whole, error)) return {file / whole};
  }
  throw StorageError(
      fmt::format("the folder \"{}\" has neither {}, nor their shards with {}; name a file of weights, or "
                  "a folder of Hugging Face with one of them",
                  file.string(), fmt::join(kWholes, " nor "), kIndex),
      ExitCode::incomplete);
}
}  // namespace

PretrainedFile::PretrainedFile(const std::filesystem::path& file) : name_(file) {
  for (const auto& part : parts_of(file)) add(part);
}

void PretrainedFile::add(const std::filesystem::path& file) {
  auto content = files_.emplace_back(resolved(file)).content();
  for (const auto& tensor : content.tensors)
    if (!places_.emplace(tensor.entry.name, files_.size() - 1).second)
      throw StorageError(fmt::format("two shards of \"{}\" have a tensor \"{}\"; download them again", name_.string(),
                                     tensor.entry.name),
                         ExitCode::incompatible);
  std::ranges::move(content.tensors, std::back_inserter(content_.tensors));
  std::ranges::move(content.others, std::back_inserter(content_.others));
}

std::int64_t PretrainedFile::classes(const model::Options& options, const tensor::Shape& sample) const {
  constexpr std::int64_t kAny = 2;
  const auto model = model::describe_model(options, sample, kAny);
  const auto tensors = model::tensors_of(model).tensors;
  const std::string last = tensors.back().view.name;
  std::set<std::string> keys;  // a shared tensor has several names
  for (const auto& tensor : tensors)
    if (tensor.view.name == last)
      for (const auto& place : places_of(model, tensor)) keys.insert(place.first);
  for (const auto& tensor : content_.tensors)
    if (keys.contains(key_of(tensor.entry.name)) && !tensor.entry.shape.empty()) return tensor.entry.shape.front();
  throw StorageError(fmt::format("\"{}\" lacks {}, which tells the number of classes of model \"{}\"; give it with "
                                 "--classes, and leave out what the file lacks with --without '{}'",
                                 name_.string(), last, options.name, last),
                     ExitCode::incompatible);
}

std::vector<std::byte> PretrainedFile::values_of(const SafetensorsTensor& tensor, std::size_t elements) {
  std::vector<std::byte> bytes(elements * tensor::size_of(tensor.entry.dtype));
  files_[places_.at(tensor.entry.name)].read(tensor, bytes);
  return bytes;
}

namespace {
void require_finite(std::span<const float> values, const std::string& tensor, const std::filesystem::path& file) {
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    throw StorageError(fmt::format("\"{}\" of \"{}\" has values that are not finite, with which no model can be used",
                                   tensor, file.string()),
                       ExitCode::incompatible);
}
}  // namespace

PretrainedWeights PretrainedFile::read(const model::Description& model, const model::ModelTensors& tensors,
                                       const checkpoint::Patterns& without) {
  const Matching matching(model, tensors, content_, without);
  for (const auto& pattern : without)
    require<UsageError>(matching.used_patterns().contains(pattern),
                        "--without \"{}\" matches no tensor of model \"{}\" or of \"{}\"", pattern, model.name,
                        name_.string());
  if (const auto problem = matching.problem(); !problem.empty())
    throw StorageError(fmt::format("\"{}\" does not fit model \"{}\": {}; change the job's model keys, or leave out "
                                   "tensors with --without NAME, which a run then initializes",
                                   name_.string(), model.name, problem),
                       ExitCode::incompatible);
  PretrainedWeights weights{std::vector<float>(tensors.layout.size()), matching.left_out(), {}};
  for (const auto& [name, match] : matching.found()) {
    float* const out = &weights.arena[match.view->offset];
    const SafetensorsTensor& first = *(match.parts.empty() ? match.tensors : match.parts).front();
    std::size_t before = 0;
    for (const SafetensorsTensor* part : match.parts) {
      const auto count = static_cast<std::size_t>(tensor::element_count(part->entry.shape));
      convert(part->entry.dtype, values_of(*part, count), count, *match.view, false,
              out + std::exchange(before, before + count));
    }
    std::vector<std::byte> bytes;
    const PositionGrid grid = match.tensors.empty() ? PositionGrid{} : matching.other_grid(*match.view, first);
    const auto count =
        grid == PositionGrid{} ? match.view->count : static_cast<std::size_t>(tensor::element_count(first.entry.shape));
    if (!match.tensors.empty()) bytes = values_of(first, count);
    for (std::size_t i = 1; i < match.tensors.size(); ++i) {
      const SafetensorsTensor* other = match.tensors[i];
      if (other->entry.dtype != first.entry.dtype || values_of(*other, count) != bytes)
        throw StorageError(fmt::format("\"{}\" and \"{}\" of \"{}\" are one tensor in model \"{}\", but differ; for "
                                       "gpt, set model.tied_head = false to have two tensors",
                                       first.entry.name, other->entry.name, name_.string(), model.name),
                           ExitCode::incompatible);
    }
    if (grid != PositionGrid{}) {
      std::vector<float> rows(count);
      convert(first.entry.dtype, bytes, rows.size(), *match.view, false, rows.data());
      std::ranges::copy(resampled_positions(rows, grid, matching.grid()), out);
      weights.shortened.push_back(fmt::format("{}: {} x {} positions interpolated from {} x {}", name,
                                              matching.grid().height, matching.grid().width, grid.height, grid.width));
    } else if (match.parts.empty()) {
      convert(first.entry.dtype, bytes, match.view->count, *match.view, matching.turns(*match.view), out);
    }
    require_finite({out, match.view->count}, first.entry.name, name_);
    if (const auto there = static_cast<std::size_t>(tensor::element_count(first.entry.shape));
        there > match.view->count && grid == PositionGrid{})
      weights.shortened.push_back(
          fmt::format("{}: the first {} of {} rows", name, match.view->shape[0], squeezed(first.entry.shape, 2)[0]));
  }
  return weights;
}

}  // namespace distdl::app
