// SPDX-License-Identifier: Apache-2.0
// distdl checkpoint export | import
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <distdl/app/commands/checkpoint/actions.hpp>
#include <distdl/app/model/gguf_model.hpp>
#include <distdl/app/model/hugging_face_config.hpp>
#include <distdl/app/model/onnx_model.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/byte_text.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/exchange/import.hpp>
#include <distdl/files/inputs.hpp>
#include <distdl/files/unfinished_file.hpp>
#include <distdl/files/whole_file.hpp>
#include <distdl/tokenizer/sentence_pieces.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
using CheckpointJson = nlohmann::json;

struct ExportOptions {
  std::string name;
  fs::path file;
  std::string format;  ///< empty: by the file's suffix
  std::string names = "distdl";
  std::string target;        ///< a program or format, which decides on the rest
  std::string type = "f32";  ///< type of matrices in GGUF
  checkpoint::Patterns patterns;
  bool deflate = false, force = false, as_json = false;
  fs::path folder;  ///< place of several files, of which FILE is one; empty: FILE is alone
};

using ExportedTensors = std::vector<checkpoint::ExportedTensor>;

/// The tensors that a file will have, and the function that writes it.
struct PreparedExport {
  ExportedTensors tensors;
  std::function<std::vector<checkpoint::TensorEntry>()> write;
  std::string note = {};  ///< for people: what is left out; empty: nothing
};

ExportedTensors chosen(const checkpoint::Summary& summary, const ExportOptions& options) {
  if (options.names == "distdl") return checkpoint::as_they_are(checkpoint::select(summary, options.patterns));
  return pytorch_tensors(summary, options.names == "pytorch" ? PytorchLayout::modules : PytorchLayout::hugging_face);
}

Overwrite overwrite_of(const ExportOptions& options) {
  return options.force ? Overwrite::replace : Overwrite::refuse;
}

PreparedExport prepare_safetensors(const checkpoint::Summary& summary, const ExportOptions& options) {
  auto tensors = chosen(summary, options);
  return {tensors, [=] { return export_safetensors(summary, options.file, tensors, overwrite_of(options)); }};
}

PreparedExport prepare_npz(const checkpoint::Summary& summary, const ExportOptions& options) {
  auto tensors = chosen(summary, options);
  const auto compression = options.deflate ? checkpoint::Compression::deflate : checkpoint::Compression::none;
  return {tensors, [=] { return export_npz(summary, options.file, tensors, compression, overwrite_of(options)); }};
}

PreparedExport prepare_view(const checkpoint::Summary& summary, const ExportOptions& options) {
  return {chosen(summary, options),
          [=] { return export_view(summary, options.file, options.patterns, overwrite_of(options)); }};
}

PreparedExport prepare_onnx(const checkpoint::Summary& summary, const ExportOptions& options) {
  auto graph = onnx_graph(summary);
  return {graph.weights, [=] { return export_onnx(summary, options.file, graph, overwrite_of(options)); }};
}

PreparedExport prepare_gguf(const checkpoint::Summary& summary, const ExportOptions& options) {
  auto model = gguf_model(summary, options.type == "f16"    ? tensor::DataType::float16
                                   : options.type == "bf16" ? tensor::DataType::bfloat16
                                                            : tensor::DataType::float32);
  return {model.tensors,
          [=] { return export_gguf(summary, options.file, model.metadata, model.tensors, overwrite_of(options)); },
          model.note};
}

struct FileFormat {
  std::string_view name;
  std::vector<std::string_view> suffixes;
  PreparedExport (*prepare)(const checkpoint::Summary&, const ExportOptions&);
  bool has_own_names = false;  ///< it has the weights of the model, under names of its own
};

const std::vector<FileFormat>& file_formats() {
  static const std::vector<FileFormat> all{
      {"safetensors", {".safetensors"}, prepare_safetensors},
      {"npz", {".npz"}, prepare_npz},
      {"view", {".h5", ".hdf5"}, prepare_view},
      {"onnx", {".onnx"}, prepare_onnx, true},
      {"gguf", {".gguf"}, prepare_gguf, true},
  };
  return all;
}

const FileFormat& format_named(std::string_view name) {
  return *std::ranges::find(file_formats(), name, &FileFormat::name);
}

/// The format that this suffix stands for. Throws UsageError if it stands for none.
std::string format_of(const fs::path& file) {
  const auto suffix = file.extension().string();
  for (const auto& format : file_formats())
    if (std::ranges::count(format.suffixes, suffix) > 0) return std::string(format.name);
  throw UsageError(
      fmt::format("the name \"{}\" does not tell the format; end it with .safetensors, .npz, .h5, .onnx or .gguf, or "
                  "name the format by --format safetensors, npz, view, onnx or gguf",
                  file.string()));
}

/// For --for: the models that a program has, by the beginning of their names here.
struct ExportTarget {
  std::string_view program, model;
};
constexpr ExportTarget kTargets[] = {{"transformers", "gpt"}, {"torchvision", "resnet"}, {"timm", "vit"}};

void require_model_of(const ExportTarget& target, const model::Description& model) {
  if (model.name.starts_with(target.model)) return;
  const auto* const other =
      std::ranges::find_if(kTargets, [&](const auto& each) { return model.name.starts_with(each.model); });
  throw UsageError(fmt::format("the model is \"{}\", which {} does not have under these names; {}", model.name,
                               target.program,
                               other != std::end(kTargets) ? fmt::format("write it by --for {}", other->program)
                                                           : "write it by --names pytorch"));
}

/// Fills in the options that --for stands for. For transformers FILE is a folder.
void apply_target(ExportOptions& options) {
  const auto* const found = std::ranges::find(kTargets, options.target, &ExportTarget::program);
  if (found == std::end(kTargets)) {
    options.format = options.target;
    return;
  }
  const auto& target = *found;
  const auto summary = checkpoint_at(options.name);
  require_model_of(target, model_in(summary));
  options.names = options.target == "transformers" ? "huggingface" : "pytorch";
  if (options.target != "transformers") return;
  options.format = "safetensors";
  options.folder = std::exchange(options.file, options.file / "model.safetensors");
  std::error_code error;
  const auto there = fs::status(resolved(options.folder), error);
  require<UsageError>(!fs::exists(there) || fs::is_directory(there),
                      "\"{}\" is a file; --for transformers writes a folder: give the name of one",
                      options.folder.string());
}

/// The files beside the weights in a folder for transformers, to be published once these are there.
struct FilesBeside {
  std::vector<std::unique_ptr<WholeFile>> files;
  std::string note = {};  ///< as in PreparedExport
};

/// tokenizer_config.json; empty: transformers has no class for this tokenizer.
std::string hugging_face_tokenizer_config(const tokenizer::Tokenizer& tokenizer) {
  if (tokenizer.file_name() == "tokenizer.json") return "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n";
  const auto model = tokenizer::read_sentence_pieces(tokenizer.content(), "the tokenizer of the checkpoint");
  if (!model.is_like_llama()) return {};
  const auto name_of = [&](std::optional<tokenizer::Token> token) {
    return token ? CheckpointJson(model.pieces[*token].text) : CheckpointJson();
  };
  const auto unknown = std::ranges::find(model.pieces, tokenizer::PieceKind::unknown, &tokenizer::SentencePiece::kind);
  return CheckpointJson{{"tokenizer_class", "LlamaTokenizer"},
                        {"legacy", false},
                        {"add_bos_token", false},
                        {"add_eos_token", false},
                        {"add_prefix_space", model.adds_space},
                        {"bos_token", name_of(model.beginning)},
                        {"eos_token", name_of(model.end)},
                        {"unk_token", unknown->text}}
             .dump() +
         "\n";
}

FilesBeside files_beside_weights(const checkpoint::Summary& summary, const ExportOptions& options) {
  FilesBeside beside;
  if (options.folder.empty()) return beside;
  make_folders(real_file_system(), resolved(options.folder));
  const auto add = [&](std::string_view name, std::string_view text) {
    const auto overwrite = options.force ? Overwrite::replace : Overwrite::refuse;
    beside.files.push_back(std::make_unique<WholeFile>(real_file_system(), resolved(options.folder / name), overwrite));
    beside.files.back()->append(text);
  };
  add("config.json", hugging_face_config(model_options_in(summary), model_in(summary).classes));
  if (const auto tokenizer = tokenizer_in(summary)) {
    add(tokenizer->file_name(), tokenizer->content());
    const auto config = hugging_face_tokenizer_config(*tokenizer);
    if (config.empty())
      beside.note =
          "tokenizer_config.json is left out: transformers has no class for this tokenizer.model; use the package "
          "sentencepiece with it, since LlamaTokenizer would make other tokens";
    else
      add("tokenizer_config.json", config);
  }
  return beside;
}

void export_to_file(const ExportOptions& options) {
  const RemovesUnfinishedFiles on_interrupt;
  auto summary = checkpoint_at(options.name);
  require_not_input(options.file, {summary.folder.parent_path()});
  const auto beside = files_beside_weights(summary, options);
  std::uint64_t total = 0;
  const auto prepared = format_named(options.format).prepare(summary, options);
  for (const auto& entry : checkpoint::entries_of(prepared.tensors))
    total += static_cast<std::uint64_t>(tensor::element_count(entry.shape)) * tensor::size_of(entry.dtype);
  std::optional<WorkProgress> progress(std::in_place, fmt::format("writing {}", printable(options.file.string())),
                                       WorkUnit::bytes, total);
  const auto written = prepared.write();
  for (const auto& file : beside.files) file->publish();
  progress.reset();
  const auto bytes = std::max<std::uint64_t>(fs::file_size(options.file), options.format == "onnx" ? total : 0);
  if (options.as_json)
    return print(
        {{"step", summary.step.value}, {"file", options.file.string()}, {"tensors", written.size()}, {"bytes", bytes}});
  fmt::print("{}: {} tensors of step {}, {}\n", printable(options.file.string()), written.size(), summary.step,
             bytes_text(static_cast<double>(bytes)));
  for (const auto& note : {beside.note, prepared.note})
    if (!note.empty()) fmt::print("{}\n", note);
}

/// Checks the options against each other first.
void export_checkpoint(ExportOptions& options) {
  if (!options.target.empty()) {
    require<UsageError>(options.names == "distdl" && options.patterns.empty(),
                        "--for decides on the names and takes all weights; leave out --names and --tensors");
    const auto& formats = file_formats();
    const bool is_format = std::ranges::find(formats, options.target, &FileFormat::name) != formats.end();
    const std::string written = is_format ? options.target : "safetensors";
    require<UsageError>(
        options.format.empty() || options.format == written || (!is_format && options.target != "transformers"),
        "--for {} writes {}; leave out --format", options.target, written);
    apply_target(options);
  }
  if (options.format.empty()) options.format = format_of(options.file);
  const auto& format = format_named(options.format);
  require<UsageError>(!format.has_own_names || (options.names == "distdl" && options.patterns.empty()),
                      "{} has names of its own for all weights; leave out --names and --tensors", format.name);
  require<UsageError>(options.type == "f32" || options.format == "gguf",
                      "--type is for GGUF only; end the name of FILE with .gguf, or leave it out");
  require<UsageError>(!options.deflate || options.format == "npz",
                      "--deflate is for npz files only; end the name of FILE with .npz, or add --format npz");
  require<UsageError>(options.names == "distdl" || (options.patterns.empty() && options.format != "view"),
                      "--names {} writes the weights of the model, all of them, as .safetensors or .npz; leave out "
                      "--tensors and --format view, or leave out --names",
                      options.names);
  export_to_file(options);
}

void add_export(Command parent) {
  auto options = std::make_shared<ExportOptions>();
  Command command = parent.add_subcommand("export", "Write a checkpoint's tensors to a file for other programs");
  command.add_option("CKPT", options->name, kCheckpointHelp).required();
  command.add_option("FILE", options->file, "The file to write").required();
  command
      .add_option(
          "--format", options->format,
          "safetensors; npz: for NumPy; view: an HDF5 file that shows whole tensors without copying them; onnx; gguf; "
          "default: by the suffix of FILE, .safetensors, .npz, .h5, .onnx or .gguf")
      .one_of({"safetensors", "npz", "view", "onnx", "gguf"});
  command
      .add_option(
          "--names", options->names,
          "distdl: all tensors, also the optimizer's state, for \"checkpoint import safetensors\"; pytorch: the "
          "weights alone, as load_state_dict() of a module of torchvision, timm or nanoGPT takes them; "
          "huggingface: as transformers has GPT-2, Llama and Qwen 2")
      .one_of({"distdl", "pytorch", "huggingface"})
      .show_default();
  command
      .add_option(
          "--for", options->target,
          "A program that is to open the weights: transformers (GPT-2, Llama, Qwen 2; FILE is a folder for "
          "from_pretrained(), with config.json and the tokenizer of the set), torchvision (ResNet), timm (ViT), onnx "
          "(any model as it evaluates, for onnxruntime and the like), gguf (GPT-2, Llama, Qwen 2, for llama.cpp)")
      .one_of({"transformers", "torchvision", "timm", "onnx", "gguf"});
  command
      .add_option("--type", options->type,
                  "Elements of matrices in GGUF: f32, or f16 or bf16, to which they are rounded; vectors stay f32")
      .one_of({"f32", "f16", "bf16"})
      .show_default();
  command.add_option("--tensors", options->patterns, "Only tensors whose names match, for instance 'parameter/*'")
      .repeatable("GLOB");
  command.add_flag("--deflate", options->deflate, "Compress the file; npz only");
  command.add_flag("--force", options->force, "Replace the file if it exists");
  command.add_flag("--json", options->as_json, "Print one JSON document");
  command.examples(
      {{"distdl checkpoint export run weights.safetensors --names pytorch", "Write the weights for PyTorch"},
       {"distdl checkpoint export gpt hub --for transformers", "Write a folder for from_pretrained()"},
       {"distdl checkpoint export run model.onnx", "Write the model for onnxruntime"},
       {"distdl checkpoint export gpt gpt.gguf --type bf16", "Write the model for llama.cpp, in 16 bits"},
       {"distdl checkpoint export run@20 step20.npz", "Write a checkpoint for NumPy"}});
  command.callback([options] { export_checkpoint(*options); });
}

void add_import_safetensors(Command import) {
  struct Arguments {
    fs::path file, folder;
    std::optional<std::int64_t> step;
    checkpoint::ImportOptions how;
    bool names_stay = false, as_json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Command command = import.add_subcommand(
      "safetensors", "Make a checkpoint to start from; \"distdl run JOB --partial\" initializes missing tensors");
  command.add_option("FILE", arguments->file, "The file to read").required();
  command
      .add_option("DIR", arguments->folder,
                  "Folder of checkpoints, for instance RUN/checkpoints; created if it is missing")
      .required();
  add_step(command, "--step", arguments->step, "Step of the checkpoint; default: the file's, or 0; with --weights 0");
  command.add_flag("--weights", arguments->how.weights_only,
                   "Import the weights only, for a new training; the step is 0 unless --step is given");
  auto prefix = command.add_option("--prefix", arguments->how.prefix,
                                   "Prefix for names that begin neither with parameter/ nor with the name of an "
                                   "optimizer's state, such as momentum/; default: parameter/");
  command.add_flag("--no-prefix", arguments->names_stay, "Keep all names").excludes(prefix);
  command.add_flag("--take", arguments->how.take,
                   "Take the folder even if a run owns it; a run that is still active then stops");
  command.add_flag("--json", arguments->as_json, "Print one JSON document");
  command.examples({{"distdl checkpoint import safetensors weights.safetensors new/checkpoints --weights",
                     "Make a checkpoint of weights, for a training in the folder \"new\""}});
  command.callback([arguments] {
    if (arguments->names_stay) arguments->how.prefix.clear();
    if (arguments->step) arguments->how.step = Step(*arguments->step);
    std::optional<WorkProgress> progress(std::in_place, "importing " + printable(arguments->file.string()),
                                         WorkUnit::bytes, 0);
    auto made = checkpoint::import_safetensors(arguments->file, arguments->folder, arguments->how);
    progress.reset();
    if (arguments->as_json)
      return print({{"step", made.step.value},
                    {"folder", made.folder.string()},
                    {"tensors", made.tensors.size()},
                    {"bytes", made.bytes}});
    fmt::print("{}: {} tensors, {}\n", printable(made.folder.string()), made.tensors.size(),
               bytes_text(static_cast<double>(made.bytes)));
  });
}
}  // namespace

void add_checkpoint_exchange(Command parent) {
  add_export(parent);
  Command import = parent.add_subcommand("import", "Make a checkpoint from another program's file");
  import.require_subcommand();
  add_import_safetensors(import);
  add_import_pretrained(import);
}

}  // namespace distdl::app
