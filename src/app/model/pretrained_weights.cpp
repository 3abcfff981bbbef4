// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include <distdl/app/model/pretrained_weights.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/fit.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::app {
namespace {
using checkpoint::SafetensorsTensor;
using tensor::DataType;
using tensor::TensorView;

constexpr std::string_view kWrappers[] = {"module.", "_orig_mod.", "model.", "transformer."};
constexpr std::string_view kBuffers[] = {"num_batches_tracked", ".attn.bias", ".attn.masked_bias"};
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

/// Key of a tensor by its layer. A shared tensor has one for each layer that shares it.
std::string key_of(const model::Description& model, const model::ModelTensor& tensor) {
  return key_of(model.layers[tensor.layer].name + "." + tensor.spec.name);
}

/// Without extents of 1 that come before `dimensions` others.
tensor::Shape squeezed(tensor::Shape shape, std::size_t dimensions) {
  while (shape.size() > dimensions && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

bool is_turned(const TensorView& view, const SafetensorsTensor& found) {
  return view.shape.size() == 2 && found.entry.shape == tensor::Shape{view.shape[1], view.shape[0]};
}

/// How a model's tensors and a file's belong together.
class Matching {
 public:
  Matching(const model::Description& model, const model::ModelTensors& tensors,
           const std::vector<SafetensorsTensor>& found, const checkpoint::Patterns& without)
      : without_(without) {
    for (const auto& tensor : tensors.tensors) {  // a shared one under both names
      wanted_.emplace(key_of(model, tensor), &tensor.view);
      if (is_without(tensor.view.name)) left_out_.insert(tensor.view.name);
    }
    for (const auto& tensor : found) add(tensor);
    for (const auto& view : tensors.layout.tensors())
      if (!found_.contains(view.name) && !left_out_.contains(view.name)) missing_.push_back(view.name);
    find_layout();
    for (const auto& [name, match] : found_)
      for (const auto* tensor : match.tensors)
        if (!fits(*match.view, *tensor))
          problems_.push_back(fmt::format("\"{}\" is {} {}, but the model has f32 {}", tensor->entry.name,
                                          tensor::code_of(tensor->entry.dtype), tensor::to_string(tensor->entry.shape),
                                          tensor::to_string(match.view->shape)));
  }

  struct Match {
    const TensorView* view = nullptr;
    std::vector<const SafetensorsTensor*> tensors;  ///< several: the model's layers share what is written twice
  };
  const std::map<std::string, Match>& found() const { return found_; }
  std::vector<std::string> left_out() const { return {left_out_.begin(), left_out_.end()}; }
  bool turns(const TensorView& view) const { return turned_ && is_conv1d(view.name); }
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
    const TensorView& view = *wanted->second;
    if (left_out_.contains(view.name)) return;
    auto& match = found_[view.name];
    match.view = &view;
    match.tensors.push_back(&tensor);
  }

  void find_layout() {
    // Only the projection to queries, keys and values is never square.
    turned_ = std::ranges::any_of(found_, [](const auto& each) {
      return each.first.ends_with(kNeverSquare) && is_turned(*each.second.view, *each.second.tensors.front());
    });
  }

  bool fits(const TensorView& view, const SafetensorsTensor& tensor) const {
    const auto& entry = tensor.entry;
    if (entry.dtype != DataType::float32 && entry.dtype != DataType::float64 && entry.dtype != DataType::float16 &&
        entry.dtype != DataType::bfloat16)
      return false;
    if (turns(view)) return is_turned(view, tensor);
    const auto shape = squeezed(entry.shape, view.shape.size());
    const bool is_longer =
        view.name == "wpe.weight" && shape.size() == 2 && shape[0] > view.shape[0] && shape[1] == view.shape[1];
    return shape == view.shape || is_longer;
  }

  const checkpoint::Patterns& without_;
  std::map<std::string, const TensorView*> wanted_;  // by key_of()
  std::map<std::string, Match> found_;               // by the model's name
  std::set<std::string> left_out_, used_patterns_;
  std::vector<std::string> missing_, unknown_, problems_;
  bool turned_ = false;
};

/// Copies (rows, columns) of the model, of which `bytes` hold the transposed if `turned`.
void convert(DataType dtype, const std::vector<std::byte>& bytes, const TensorView& view, bool turned, float* out) {
  const std::size_t element = tensor::size_of(dtype);
  const std::size_t columns = turned ? static_cast<std::size_t>(view.shape[1]) : 1, rows = view.count / columns;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      out[row * columns + column] =
          static_cast<float>(tensor::value_of(dtype, &bytes[(turned ? column * rows + row : row) * element]));
}
}  // namespace

PretrainedFile::PretrainedFile(const std::filesystem::path& file)
    : file_(real_file_system(), resolved(file), OpenFile::Mode::read), content_(checkpoint::read_safetensors(file_)) {}

std::int64_t PretrainedFile::classes(const model::Options& options, const tensor::Shape& sample) const {
  constexpr std::int64_t kAny = 2;
  const auto model = model::describe_model(options, sample, kAny);
  const auto tensors = model::tensors_of(model).tensors;
  const std::string last = tensors.back().view.name;
  std::set<std::string> keys;  // a shared tensor has several names
  for (const auto& tensor : tensors)
    if (tensor.view.name == last) keys.insert(key_of(model, tensor));
  for (const auto& tensor : content_.tensors)
    if (keys.contains(key_of(tensor.entry.name)) && !tensor.entry.shape.empty()) return tensor.entry.shape.front();
  throw StorageError(
      fmt::format("\"{}\" does not contain a model \"{}\": it lacks {}", file_.path().string(), options.name, last),
      ExitCode::incompatible);
}

PretrainedWeights PretrainedFile::read(const model::Description& model, const model::ModelTensors& tensors,
                                       const checkpoint::Patterns& without) {
  const Matching matching(model, tensors, content_.tensors, without);
  for (const auto& pattern : without)
    require<UsageError>(matching.used_patterns().contains(pattern),
                        "--without \"{}\" matches no tensor of model \"{}\" or of \"{}\"", pattern, model.name,
                        file_.path().string());
  if (const auto problem = matching.problem(); !problem.empty())
    throw StorageError(fmt::format("\"{}\" does not fit model \"{}\": {}; change the job's model keys, or leave out "
                                   "tensors with --without NAME, which a run then initializes",
                                   file_.path().string(), model.name, problem),
                       ExitCode::incompatible);
  PretrainedWeights weights{std::vector<float>(tensors.layout.size()), matching.left_out(), {}};
  std::vector<std::byte> bytes, again;
  const auto load = [&](const SafetensorsTensor& from, std::size_t elements, std::vector<std::byte>& to) {
    to.resize(elements * tensor::size_of(from.entry.dtype));
    file_.read_at(to, from.offset);
  };
  for (const auto& [name, match] : matching.found()) {
    const SafetensorsTensor& first = *match.tensors.front();
    load(first, match.view->count, bytes);
    for (std::size_t i = 1; i < match.tensors.size(); ++i) {
      const SafetensorsTensor* other = match.tensors[i];
      load(*other, match.view->count, again);
      if (other->entry.dtype != first.entry.dtype || again != bytes)
        throw StorageError(fmt::format("\"{}\" and \"{}\" of \"{}\" are one tensor in model \"{}\", but differ; for "
                                       "gpt, set model.tied_head = false to have two tensors",
                                       first.entry.name, other->entry.name, file_.path().string(), model.name),
                           ExitCode::incompatible);
    }
    convert(first.entry.dtype, bytes, *match.view, matching.turns(*match.view), &weights.arena[match.view->offset]);
    if (const auto there = static_cast<std::size_t>(tensor::element_count(first.entry.shape));
        there > match.view->count)
      weights.shortened.push_back(
          fmt::format("{}: the first {} of {} rows", name, match.view->shape[0], squeezed(first.entry.shape, 2)[0]));
  }
  return weights;
}

}  // namespace distdl::app
