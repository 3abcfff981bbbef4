// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint import pretrained
#include <algorithm>
#include <memory>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/app/model/hugging_face_config.hpp>
#include <distdl/app/model/pretrained_weights.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/exchange/import.hpp>
#include <distdl/data/packed_text.hpp>
#include <distdl/data/source.hpp>
#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::app {
namespace {
struct PretrainedArguments {
  std::filesystem::path file;
  JobArguments job;
  tensor::Shape sample;
  std::int64_t classes = 0;  ///< 0: as the file says
  checkpoint::Patterns without;
  bool take = false, as_json = false;
};

/// Samples that a model is made for.
struct Samples {
  tensor::Shape shape;
  std::int64_t classes;
  tensor::Shape targets{};
};

Samples samples_of(const PretrainedArguments& arguments, const train::Recipe& recipe, const PretrainedFile& file) {
  if (!arguments.sample.empty())
    return {arguments.sample, arguments.classes > 0 ? arguments.classes : file.classes(recipe.model, arguments.sample)};
  require<UsageError>(arguments.classes == 0,
                      "--classes is for --sample; without it, the data set of the job tells both");
  require<UsageError>(!recipe.data.train.empty() || !recipe.data.sets.empty(),
                      "the job \"{}\" names no data set (data.train) from which the shape of the samples is known; "
                      "give it with --sample: "
                      "3,224,224 for images, 1024 for sequences of so many tokens",
                      arguments.job.file.string());
  const auto source =
      data::open_sources(recipe.data, recipe.model.context, static_cast<std::uint64_t>(recipe.train.seed)).training;
  return {source->shape(), source->classes(), source->targets()};
}

/// As a run at its start would save it (TrainedModel reads it), but for what only a data set knows.
checkpoint::State state_of(model::Options options, const Samples& samples) {
  checkpoint::State state{{"position", "0"},
                          {"updates", "0"},
                          {"data.shape", tensor::to_string(samples.shape)},
                          {"data.classes", std::to_string(samples.classes)}};
  if (!samples.targets.empty()) state["data.targets"] = tensor::to_string(samples.targets);
  describe(options,
           [&](const std::string& key, const auto& value, const char*) { state[key] = fmt::format("{}", value); });
  return state;
}

/// The tokenizer of a folder of Hugging Face.
struct FolderTokenizer {
  std::string content;    ///< empty: there is none, or it is left out
  std::string file_name;  ///< name for a file with it
  std::string note;       ///< for people: why it is left out; empty: it is not
};

FolderTokenizer tokenizer_beside(const std::filesystem::path& folder, const Samples& samples) {
  FolderTokenizer found;
  const auto file = tokenizer::Tokenizer::file_in(folder);
  if (!file || samples.shape.size() != 1) return found;
  try {
    const auto tokenizer = tokenizer::Tokenizer::read(folder);
    require(tokenizer.vocabulary() <= samples.classes, "\"{}\" has {} tokens, but the model {}", file->string(),
            tokenizer.vocabulary(), samples.classes);
    found.content = tokenizer.content();
    found.file_name = tokenizer.file_name();
  } catch (const Error& error) {
    found.note = fmt::format("the tokenizer is left out: {}", error.what());
  }
  return found;
}

void import_pretrained(const PretrainedArguments& arguments) {
  const config::Job job = arguments.job.load();
  config::log_warnings(job);
  std::optional<WorkProgress> progress(std::in_place, "importing " + printable(arguments.file.string()),
                                       WorkUnit::bytes, 0);
  require_same_config(arguments.file, job.recipe.model);
  PretrainedFile file(arguments.file);
  const Samples samples = samples_of(arguments, job.recipe, file);
  const auto model = model::describe_model(job.recipe.model, samples.shape, samples.classes, samples.targets);
  const auto tensors = model::tensors_of(model);
  const auto weights = file.read(model, tensors, arguments.without);
  std::vector<checkpoint::Slice> slices;
  for (const auto& view : tensors.layout.tensors())
    if (!std::ranges::binary_search(weights.left_out, view.name))
      slices.push_back({"parameter/" + view.name, tensor::DataType::float32, view.shape, tensor::whole(view.shape),
                        reinterpret_cast<const std::byte*>(&weights.arena[view.offset])});
  const auto tokenizer = tokenizer_beside(arguments.file, samples);
  checkpoint::State state = state_of(job.recipe.model, samples);
  if (!tokenizer.content.empty()) state[data::kTokenizerState] = data::packed_text(tokenizer.content);
  const auto made = checkpoint::save_imported(std::filesystem::path(job.run_dir) / "checkpoints", Step(0), slices,
                                              state, arguments.take);
  progress.reset();
  if (arguments.as_json)
    return print({{"step", made.step.value},
                  {"folder", made.folder.string()},
                  {"model", model.name},
                  {"tensors", made.tensors.size()},
                  {"parameters", model::parameter_count(tensors)},
                  {"tokenizer", tokenizer.file_name},
                  {"left_out", weights.left_out},
                  {"shortened", weights.shortened}});
  fmt::print("{}: {} tensors of model {} with {} parameters\n", printable(made.folder.string()), made.tensors.size(),
             model.name, model::parameter_count(tensors));
  if (!tokenizer.file_name.empty()) fmt::print("with its {}\n", tokenizer.file_name);
  if (!tokenizer.note.empty()) fmt::print("{}\n", printable(tokenizer.note));
  for (const auto& what : weights.shortened) fmt::print("{}\n", printable(what));
  if (!weights.left_out.empty())
    fmt::print("left out: {}\n", printable(fmt::format("{}", fmt::join(weights.left_out, ", "))));
}
}  // namespace

void add_import_pretrained(Command import) {
  auto arguments = std::make_shared<PretrainedArguments>();
  Command command =
      import.add_subcommand("pretrained",
                            "Make a checkpoint of a job's model from PyTorch's weights: GPT-2, Llama, Qwen 2, ResNet, "
                            "ViT. Use it unchanged (distdl "
                            "generate, evaluate, predict), or continue its training (distdl run JOB --partial)");
  command
      .add_option(
          "FILE", arguments->file,
          "File of Hugging Face, torchvision, timm or nanoGPT, safetensors or of torch.save(), of which nothing is "
          "executed; or a folder of Hugging Face, whose tokenizer the checkpoint then has, too")
      .required();
  arguments->job.add_to(command);
  command
      .add_option("--sample", arguments->sample,
                  "Shape of the samples, if the job's data set is not available: 3,224,224 for images, 1024 for "
                  "tokens; the number of classes then comes from the file")
      .list()
      .positive();
  command
      .add_option("--classes", arguments->classes,
                  "With --sample: the number of classes, if the file lacks the last layer, or it is left out")
      .positive();
  command
      .add_option("--without", arguments->without,
                  "Tensors to leave out, for instance 'fc.*', the last layer, if the classes are others")
      .repeatable("GLOB");
  command.add_flag("--take", arguments->take,
                   "Take the folder even if a run owns it; a run that is still active then stops");
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint import pretrained model.safetensors gpt2.toml",
                     "Make a checkpoint of PyTorch's weights of GPT-2 in the job's run.dir"}});
  command.callback([arguments] { import_pretrained(*arguments); });
}

}  // namespace distdl::app
