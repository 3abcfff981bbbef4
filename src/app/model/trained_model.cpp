// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/config/job.hpp>
#include <distdl/data/packed_text.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {
namespace {
[[noreturn]] void refuse(const checkpoint::Summary& summary, const std::string& why) {
  throw StorageError(fmt::format("\"{}\" {}", summary.folder.string(), why), ExitCode::incompatible);
}

[[noreturn]] void refuse_model(const checkpoint::Summary& summary, const ConfigError& error) {
  refuse(summary, fmt::format("contains a model that this distdl does not know: {}", error.what()));
}

const std::string& said(const checkpoint::Summary& summary, const std::string& key) {
  const auto found = summary.state.find(key);
  if (found == summary.state.end())
    refuse(summary, fmt::format("has no entry \"{}\" in its state, so the model of its weights is unknown; only "
                                "checkpoints that a run of distdl saved have it",
                                key));
  return found->second;
}

std::int64_t number_in(const checkpoint::Summary& summary, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    refuse(summary, fmt::format("has \"{}\" in its state, but a number is expected", text));
  return value;
}

/// "(3, 32, 32)"
tensor::Shape shape_in(const checkpoint::Summary& summary, std::string_view text) {
  tensor::Shape shape;
  while (!text.empty()) {
    const auto begin = text.find_first_of("0123456789");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
    shape.push_back(number_in(summary, text.substr(0, end)));
    text.remove_prefix(end);
  }
  return shape;
}

}  // namespace

model::Options model_options_in(const checkpoint::Summary& summary) {
  config::Job job;
  std::vector<std::string> said_of_model;
  for (const auto& [key, value] : summary.state)
    if (key.starts_with("model.")) said_of_model.push_back(fmt::format("{}={}", key, value));
  try {
    config::apply(job, said_of_model);
    return job.recipe.model;
  } catch (const ConfigError& error) {
    refuse_model(summary, error);
  }
}

model::Description model_in(const checkpoint::Summary& summary) {
  const auto options = model_options_in(summary);
  try {
    const auto targets = summary.state.find("data.targets");  // none where there are classes
    return model::describe_model(options, shape_in(summary, said(summary, "data.shape")),
                                 number_in(summary, said(summary, "data.classes")),
                                 targets == summary.state.end() ? tensor::Shape{} : shape_in(summary, targets->second));
  } catch (const ConfigError& error) {
    refuse_model(summary, error);
  }
}

std::string weights_prefix_in(const checkpoint::Summary& summary) {
  const bool averaged = std::any_of(summary.tensors.begin(), summary.tensors.end(),
                                    [](const auto& entry) { return entry.name.starts_with("average/"); });
  return averaged ? "average/" : "parameter/";
}

std::optional<tokenizer::Tokenizer> tokenizer_in(const checkpoint::Summary& summary) {
  constexpr std::size_t kMost = 128 << 20;
  const auto packed = summary.state.find(data::kTokenizerState);
  if (packed == summary.state.end()) return std::nullopt;
  try {
    return tokenizer::Tokenizer::parse(data::unpacked_text(packed->second, kMost), "the tokenizer of the checkpoint");
  } catch (const ConfigError& error) {
    refuse(summary, fmt::format("contains a tokenizer that this distdl does not know: {}", error.what()));
  }
}

TrainedModel::TrainedModel(const std::string& name, const kernels::Options& options)
    : summary_(checkpoint_at(name)),
      description_(model_in(summary_)),
      tensors_(model::tensors_of(description_)),
      backend_(kernels::make_backend(options)) {
  auto host = tensor::allocate_host(tensors_.layout.size() * sizeof(float));
  std::vector<checkpoint::Target> targets;
  const std::string prefix = weights_prefix_in(summary_);
  for (const auto& view : tensors_.layout.tensors())
    targets.push_back({prefix + view.name, tensor::DataType::float32, view.shape, tensor::whole(view.shape),
                       static_cast<std::byte*>(host.data()) + view.offset * sizeof(float)});
  checkpoint::Store(summary_.folder.parent_path(), {}).read(summary_, targets);
  parameters_ = backend_->allocate(host.bytes());
  backend_->copy_from_host(parameters_.data(), host.data(), host.bytes());
}

std::unique_ptr<model::Network> TrainedModel::network(std::int64_t samples) {
  auto network = std::make_unique<model::Network>(*backend_, description_, tensors_, samples);
  network->load_parameters(static_cast<const float*>(parameters_.data()));
  return network;
}

}  // namespace distdl::app
