// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/base/byte_text.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/one_of.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/array_import.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/document_import.hpp>
#include <distdl/data/idx_import.hpp>
#include <distdl/data/image_import.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/shapes.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/data/tokens.hpp>
#include <distdl/files/inputs.hpp>
#include <distdl/files/unfinished_file.hpp>

namespace distdl::app {
namespace {

using data::Description;

/// Number of times that imports of tokens read their files: they count first.
constexpr std::uint64_t kReads = 2;

struct InfoOptions {
  std::filesystem::path file;
  bool verify = false;
  bool json = false;
  std::int64_t preview = 0;
};

Overwrite overwrite(bool force) {
  return force ? Overwrite::replace : Overwrite::refuse;
}

void add_force(Command command, bool& force) {
  command.add_flag("--force", force, "Replace the file if it exists");
}

/// The things that Description::classes counts.
const char* answers_of(const Description& set) {
  if (data::find_kind(set.kind).is_sequence) return "symbols";
  return set.targets.empty() ? "classes" : set.classes == 1 ? "number to predict" : "numbers to predict";
}

/// Makes or imports the set `file`, shows how far that is, and prints what was written.
template <class Write>
void write_set(const std::filesystem::path& file, const std::string& doing, WorkUnit unit, std::uint64_t total,
               Write&& write) {
  const RemovesUnfinishedFiles on_interrupt;
  std::optional<WorkProgress> progress(std::in_place, doing, unit, total);
  const Description set = write();
  progress.reset();  // the result takes its place
  fmt::print("{}: {} {}{}, {} {}, {}\n", printable(file.string()), set.samples, set.kind,
             set.shape.empty() ? "" : " of " + tensor::to_string(set.shape), set.classes, answers_of(set),
             bytes_text(static_cast<double>(set.stored_bytes)));
}

/// Imports files, each of which is read `times` times. How much there is to read of a pipe is not known.
template <class Write>
void import_set(const std::vector<std::filesystem::path>& from, std::uint64_t times, const std::filesystem::path& file,
                Write&& write) {
  require_not_input(file, from);
  std::error_code error;  // the import tells it
  std::uint64_t bytes = 0;
  for (const auto& each : from)
    if (!error) bytes += std::filesystem::file_size(each, error);
  write_set(file, "importing " + printable(from.front().string()), WorkUnit::bytes, error ? 0 : times * bytes, write);
}

std::vector<std::int64_t> count_labels(const std::vector<std::int32_t>& labels, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (std::int32_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

void print_counts(const std::vector<std::int64_t>& counts) {
  constexpr std::size_t kRows = 40, kWidth = 50;
  std::int64_t most = std::max<std::int64_t>(1, *std::max_element(counts.begin(), counts.end()));
  fmt::print("\nclass  samples\n");
  for (std::size_t label = 0; label < std::min(counts.size(), kRows); ++label) {
    auto width = static_cast<std::size_t>(counts[label]) * kWidth / static_cast<std::size_t>(most);
    fmt::print("{:>5}  {:>7}  {}\n", label, counts[label], std::string(width, '#'));
  }
  if (counts.size() > kRows) fmt::print("and {} more classes\n", counts.size() - kRows);
}

void print_table(const InfoOptions& options, const Description& set) {
  auto line = [](const char* name, const std::string& value) { fmt::print("{:<10} {}\n", name, printable(value)); };
  line("file", options.file.string());
  line("kind", set.kind);
  line("origin", set.origin);
  line("samples", std::to_string(set.samples));
  if (!set.shape.empty()) line("shape", tensor::to_string(set.shape));
  line(set.targets.empty() ? "classes" : "targets",
       set.targets.empty() ? std::to_string(set.classes) : tensor::to_string(set.targets));
  if (set.tokenizer_bytes > 0) line("tokenizer", fmt::format("{} bytes of a tokenizer", set.tokenizer_bytes));
  if (data::find_kind(set.kind).is_normalized)
    line("pixels", fmt::format("mean {:.4f}, deviation {:.4f}", set.mean, set.deviation));
  line("size", fmt::format("{} ({} bytes)", bytes_text(static_cast<double>(set.stored_bytes)), set.stored_bytes));
}

/// An image as text, its channels averaged: two characters a pixel, so that it is about square; every other pixel where
/// the image is wider than a terminal.
void print_image(const data::Picture& picture, std::int64_t index) {
  static constexpr std::string_view kShades = " .:-=+*#%@";
  const auto& [shape, pixels, label] = picture;
  const std::int64_t height = shape[1], width = shape[2], stride = std::max<std::int64_t>(1, (width + 79) / 80);
  fmt::print("\nsample {}, class {}\n", index, label);
  for (std::int64_t y = 0; y < height; y += stride) {
    std::string text;
    for (std::int64_t x = 0; x < width; x += stride) {
      std::size_t sum = 0;
      for (std::int64_t c = 0; c < shape[0]; ++c) sum += pixels[static_cast<std::size_t>((c * height + y) * width + x)];
      text.append(2, kShades[sum / static_cast<std::size_t>(shape[0]) * kShades.size() / 256]);
    }
    fmt::print("{}\n", text);
  }
}

void print_numbers(const data::Numbers& sample, std::int64_t index) {
  static constexpr std::size_t kMost = 12;
  const auto shown = [](std::span<const float> numbers) {
    std::string text;
    for (const float number : numbers.first(std::min(numbers.size(), kMost))) text += fmt::format(" {:.6g}", number);
    return numbers.size() > kMost ? text + " ..." : text;
  };
  fmt::print("\nsample {},{} ->{}\n", index, shown(sample.inputs),
             sample.label ? fmt::format(" class {}", *sample.label) : shown(sample.targets));
}

void print_images(const data::Kind& kind, const InfoOptions& options) {
  std::int64_t index = 0;
  kind.show(options.file, options.preview, [&index](const data::ShownSample& sample) {
    if (const auto* const picture = std::get_if<data::Picture>(&sample)) print_image(*picture, index++);
    if (const auto* const numbers = std::get_if<data::Numbers>(&sample)) print_numbers(*numbers, index++);
  });
}

nlohmann::json to_json(const InfoOptions& options, const Description& set) {
  nlohmann::json document{{"file", options.file.string()}, {"kind", set.kind},       {"origin", set.origin},
                          {"samples", set.samples},        {"classes", set.classes}, {"bytes", set.stored_bytes}};
  if (!set.shape.empty()) document["shape"] = set.shape;
  if (!set.targets.empty()) document["targets"] = set.targets;
  if (set.tokenizer_bytes > 0) document["tokenizer_bytes"] = set.tokenizer_bytes;
  if (data::find_kind(set.kind).is_normalized) document.update({{"mean", set.mean}, {"deviation", set.deviation}});
  return document;
}

void report_damage(const InfoOptions& options, const data::Verification& result) {
  if (result.damage.empty()) return;
  for (const auto& line : result.damage) fmt::print(stderr, "{}\n", printable(line));
  throw StorageError(fmt::format("\"{}\" is damaged in {} places; create or copy the file again", options.file.string(),
                                 result.damage.size()),
                     ExitCode::corrupt);
}

void info(const InfoOptions& options) {
  Description set = data::describe_file(options.file);
  data::Verification verification;
  if (options.verify) {
    std::optional<WorkProgress> progress;
    if (!options.json)
      progress.emplace("verifying " + printable(options.file.string()), WorkUnit::bytes, set.stored_bytes);
    verification = data::verify_file(options.file);
  }
  nlohmann::json document = to_json(options, set);
  if (options.verify) document.update({{"chunks", verification.chunks}, {"damage", verification.damage}});
  if (!options.json) print_table(options, set);
  if (!options.json && options.verify)
    fmt::print("{:<10} {} chunks read, {} damaged\n", "verified", verification.chunks, verification.damage.size());
  const data::Kind& kind = data::find_kind(set.kind);
  if (kind.labels && verification.damage.empty()) {
    const auto labels = kind.labels(options.file);
    const auto counts = count_labels(labels, set.classes);
    if (!labels.empty()) document["samples_per_class"] = counts;
    if (!options.json && !labels.empty()) print_counts(counts);
    if (!options.json && options.preview > 0) print_images(kind, options);
  }
  if (options.json) fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  report_damage(options, verification);
}

void add_make(Command data_command) {
  auto make = data_command.add_subcommand("make", "Make a synthetic data set");
  make.require_subcommand();
  auto shapes = make.add_subcommand("shapes", "Labelled images of shapes: discs, squares, stars ...");
  struct Given {
    data::ShapesOptions options;
    std::filesystem::path output;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  auto& options = given->options;
  shapes.add_option("OUT", given->output, "HDF5 file to write").required();
  shapes.add_option("--samples", options.samples, "Number of images").show_default();
  shapes.add_option("--size", options.size, "Height and width in pixels").show_default();
  shapes.add_option("--channels", options.channels, "1: grey; 3: colour").show_default();
  shapes.add_option("--classes", options.classes, "Number of kinds of shapes, 2 to 10").show_default();
  shapes.add_option("--seed", options.seed, "Seed of the random numbers").show_default();
  shapes.add_option("--noise", options.noise, "Standard deviation of the noise; black is 0, white is 1").show_default();
  add_force(shapes, given->force);
  shapes.examples({{"distdl data make shapes shapes.h5", "Make 12000 grey images of 10 kinds"},
                   {"distdl data make shapes other.h5 --samples 600 --seed 2", "Make other images of these kinds"}});
  shapes.callback([given] {
    write_set(given->output, "making " + printable(given->output.string()), WorkUnit::samples,
              static_cast<std::uint64_t>(std::max<std::int64_t>(0, given->options.samples)),
              [&] { return data::make_shapes(given->options, given->output, overwrite(given->force)); });
  });
}

void add_import_idx(Command import) {
  auto idx = import.add_subcommand("idx", "Images and labels in MNIST's IDX format, plain, gzip or zstd");
  auto given = std::make_shared<data::IdxImport>();
  auto force = std::make_shared<bool>(false);
  idx.add_option("IMAGES", given->images, "IDX file of images (N, H, W)").required();
  idx.add_option("LABELS", given->labels, "IDX file of labels (N)").required();
  idx.add_option("OUT", given->output, "HDF5 file to write").required();
  idx.add_option("--classes", given->classes, "Number of classes; 0: the highest label + 1")
      .not_negative()
      .show_default();
  add_force(idx, *force);
  idx.examples({{"distdl data import idx train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz mnist.h5",
                 "Import MNIST as it is downloaded"}});
  idx.callback([given, force] {
    given->overwrite = overwrite(*force);
    import_set({given->images, given->labels}, 1, given->output, [&] { return data::import_idx(*given); });
  });
}

void report_broken(const std::vector<std::string>& broken) {
  constexpr std::size_t kMost = 20;
  for (std::size_t i = 0; i < std::min(broken.size(), kMost); ++i)
    fmt::print(stderr, "passed over {}\n", printable(broken[i]));
  if (broken.size() > kMost) fmt::print(stderr, "and over {} more\n", broken.size() - kMost);
  if (!broken.empty()) fmt::print("{} broken images were passed over\n", broken.size());
}

void add_import_images(Command import) {
  auto images = import.add_subcommand(
      "images", "Labelled images: JPEG, PNG, WebP, PPM; in class folders, CSV, shards of WebDataset, or CIFAR's files");
  auto given = std::make_shared<data::ImageImport>();
  auto words = std::make_shared<std::vector<std::string>>();
  auto force = std::make_shared<bool>(false);
  images
      .add_option("SOURCE", *words,
                  "A folder with a folder for each class; or files .csv, .tar or CIFAR's .bin, in this order; "
                  "and at last the HDF5 file to write")
      .type_name("... OUT")
      .required();
  images.add_flag("--encoded", given->is_encoded,
                  "Keep the images encoded: they are cropped at random and decoded while training");
  images.add_option("--size", given->size, "Height and width of the images for the model; 0: 224, or 32 for CIFAR")
      .within(std::int64_t{0}, std::int64_t{1} << 14)
      .show_default();
  images
      .add_option("--resize", given->resize,
                  "Resize the shorter side to this, and then crop the centre; 0: as --size; not for --encoded")
      .not_negative()
      .show_default();
  images.add_option("--channels", given->channels, "3: colour; 1: grey").one_of({"1", "3"}).show_default();
  images.add_option("--classes", given->classes, "Number of classes; 0: those found").not_negative().show_default();
  images.add_flag("--upright", given->is_upright, "Turn images as the orientation in their EXIF data says");
  images.add_flag("--skip-broken", given->skips_broken, "Pass over images that cannot be decoded, and name them");
  images.add_option("--threads", given->threads, "Threads that decode; 0: one per processor")
      .within(std::int64_t{0}, std::int64_t{1024})
      .show_default();
  add_force(images, *force);
  images.examples(
      {{"distdl data import images photos train.h5 --size 64", "Import a folder with a folder for each class"},
       {"distdl data import images imagenet/train train.h5 --encoded", "Keep ImageNet's images encoded"},
       {"distdl data import images data_batch_*.bin cifar.h5", "Import CIFAR-10"}});
  images.callback([given, words, force] {
    require<UsageError>(words->size() >= 2,
                        "distdl data import images takes sources and the file to write, but only \"{}\" is given",
                        words->front());
    given->output = words->back();
    given->sources.assign(words->begin(), words->end() - 1);
    given->overwrite = overwrite(*force);
    require_not_input(given->output, given->sources);
    data::ImageImporter importer(*given);
    std::vector<std::string> broken;
    write_set(given->output, "importing " + printable(given->sources.front().string()), WorkUnit::samples,
              importer.images(), [&] {
                auto imported = importer.write();
                broken = std::move(imported.broken);
                return imported.description;
              });
    report_broken(broken);
  });
}

void add_import_text(Command import) {
  auto text = import.add_subcommand("text", "Documents of text, JSONL, CSV or TSV as tokens");
  struct Given {
    data::TextImport import;
    std::vector<std::string> names;
    std::string format = "auto", separator;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  auto& options = given->import;
  text.add_option("FILES", given->names,
                  "Files to read, plain, gzip or zstd, and folders of files; and behind them the HDF5 file to write")
      .required();
  text.add_option(
          "--tokenizer", options.tokenizer,
          "bytes: each byte is a token; or a tokenizer.json of byte-level BPE (GPT-2, Llama 3, Qwen), a "
          "tokenizer.model "
          "of SentencePiece (Llama 2, T5), a vocab.json with merges.txt beside it, or a folder with one of these")
      .show_default();
  std::vector<std::string> formats;
  for (const auto& row : choices_of(data::TextFormat())) formats.emplace_back(row.name);
  text.add_option("--format", given->format, OneOf<data::TextFormat>::help("How files hold documents"))
      .one_of(formats)
      .show_default();
  text.add_option("--field", options.field, "Field of JSONL, column of CSV and TSV").show_default();
  auto separator = text.add_option(
      "--separator", given->separator,
      "Text of one token, put after each document; default: the tokenizer's end of text; nothing for bytes");
  text.add_option("--threads", options.threads,
                  "Threads that encode; the set is the same for any number; 0: one for each processor")
      .not_negative()
      .show_default();
  add_force(text, given->force);
  text.examples({{"distdl data import text shakespeare.txt text.h5", "Import a text, each byte of which is a token"},
                 {"distdl data import text corpus/ more.jsonl.gz text.h5 --tokenizer tokenizer.json",
                  "Import documents of a folder and of a file, with the tokenizer of a model of Hugging Face"}});
  text.callback([given, separator] {
    require<UsageError>(
        given->names.size() >= 2,
        "\"{}\" is the only name, but files to read and the HDF5 file to write are expected, as in: distdl "
        "data import text shakespeare.txt text.h5",
        given->names[0]);
    const std::filesystem::path output = given->names.back();
    auto& what = given->import;
    what.inputs.assign(given->names.begin(), given->names.end() - 1);
    if (separator.given()) what.separator = given->separator;
    what.format = OneOf<data::TextFormat>(given->format);
    require_not_input(output, what.inputs);
    import_set(data::text_files(what.inputs), 1, output,
               [&] { return data::import_text(what, output, overwrite(given->force)); });
  });
}

void add_import_tokens(Command import) {
  auto tokens = import.add_subcommand("tokens", "Token numbers of llm.c, nanoGPT, or in an array of NumPy (.npy)");
  struct Given {
    data::TokenImport import;
    std::string type = "auto";
    std::filesystem::path output;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  tokens.add_option("FILE", given->import.tokens, "File to read, plain, gzip or zstd").required();
  tokens.add_option("OUT", given->output, "HDF5 file to write").required();
  tokens
      .add_option("--vocabulary", given->import.vocabulary,
                  "Number of different tokens; 50257: GPT-2's; 128256: Llama 3's")
      .within(std::int64_t{1}, data::kLargestVocabulary)
      .show_default();
  std::vector<std::string> types;
  for (const auto& row : choices_of(data::TokenType())) types.emplace_back(row.name);
  tokens.add_option("--type", given->type, OneOf<data::TokenType>::help("How tokens are stored, little-endian"))
      .one_of(types)
      .show_default();
  add_force(tokens, given->force);
  tokens.examples(
      {{"distdl data import tokens train.bin tokens.h5", "Import tokens of GPT-2"},
       {"distdl data import tokens train.bin tokens.h5 --vocabulary 65", "Import tokens of another vocabulary"}});
  tokens.callback([given] {
    given->import.type = OneOf<data::TokenType>(given->type);
    import_set({given->import.tokens}, kReads, given->output,
               [&] { return data::import_tokens(given->import, given->output, overwrite(given->force)); });
  });
}

void add_like(Command command, std::filesystem::path& like) {
  command.add_option("--like", like,
                     "A set imported before, whose columns, classes, means and deviations are taken; for the data of "
                     "an evaluation: that of the training");
}

void add_import_table(Command import) {
  auto table = import.add_subcommand("table", "Rows of a table: CSV, TSV, or columns in an .npz of NumPy");
  struct Given {
    data::TableImport import;
    std::filesystem::path output;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  auto& options = given->import;
  table
      .add_option("FILE", options.table,
                  "CSV or .tsv with the names of its columns in the first line, plain, gzip or zstd; or .npz")
      .required();
  table.add_option("OUT", given->output, "HDF5 file to write").required();
  table.add_option("--label", options.label, "Column of the classes, numbers or texts");
  table.add_option("--target", options.targets, "Column of numbers to predict; may be repeated").repeatable("COLUMN");
  table.add_option("--column", options.columns, "Column to predict from; may be repeated; default: all others")
      .repeatable("COLUMN");
  table.add_option("--without", options.without, "Column to leave out; may be repeated").repeatable("COLUMN");
  add_like(table, options.like);
  add_force(table, given->force);
  table.examples({{"distdl data import table iris.csv iris.h5 --label species", "Import rows with classes"},
                  {"distdl data import table houses.csv houses.h5 --target price --without id",
                   "Import rows with a number to predict"}});
  table.callback([given] {
    import_set({given->import.table}, 1, given->output,
               [&] { return data::import_table(given->import, given->output, overwrite(given->force)); });
  });
}

void add_import_fields(Command import) {
  auto fields = import.add_subcommand("fields", "Arrays of simulations: HDF5, .npz or .npy, of 1 to 3 dimensions");
  struct Given {
    data::FieldImport import;
    std::filesystem::path output;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  auto& options = given->import;
  fields.add_option("FILE", options.file, "File with arrays (samples, ...) or (samples, channels, ...)").required();
  fields.add_option("OUT", given->output, "HDF5 file to write").required();
  fields.add_option("--input", options.inputs, "Array to predict from; may be repeated: channels follow each other")
      .repeatable("ARRAY");
  fields.add_option("--target", options.targets, "Array of numbers to predict; may be repeated").repeatable("ARRAY");
  fields.add_option("--label", options.label, "Array of classes (samples)");
  fields
      .add_option("--dimensions", options.dimensions,
                  "Dimensions of a sample without its channels; -1: all of an array but samples and channels")
      .within(std::int64_t{-1}, std::int64_t{3})
      .show_default();
  add_like(fields, options.like);
  add_force(fields, given->force);
  fields.examples({{"distdl data import fields flow.npz flow.h5 --input u --input v --target p --dimensions 2",
                    "Import fields of two dimensions, to predict one from two others"},
                   {"distdl data import fields digits.npz digits.h5 --input x --label y --dimensions 2",
                    "Import arrays of NumPy with classes"}});
  fields.callback([given] {
    require_not_input(given->output, {given->import.file});
    write_set(given->output, "importing " + printable(given->import.file.string()), WorkUnit::samples, 0,
              [&] { return data::import_fields(given->import, given->output, overwrite(given->force)); });
  });
}

void add_info(Command data_command) {
  auto command = data_command.add_subcommand("info", "Show what a data set contains, and whether it is intact");
  auto options = std::make_shared<InfoOptions>();
  command.add_option("FILE", options->file, "HDF5 data set").required();
  command.add_flag("--verify", options->verify, "Read all data and check every checksum");
  command.add_flag("--json", options->json, "Print one JSON document");
  command.add_option("--preview", options->preview, "Draw the first N images").not_negative();
  command.examples({{"distdl data info shapes.h5 --preview 3", "See what a data set contains, and its first 3 images"},
                    {"distdl data info shapes.h5 --verify", "Read all of it, and check every checksum"}});
  command.callback([options] { info(*options); });
}

}  // namespace

/// distdl data make|import|info. Callbacks throw distdl::Error.
void add_data_command(Command app) {
  auto command = app.add_subcommand("data", "Make, import and inspect data sets");
  command.require_subcommand();
  add_make(command);
  auto import = command.add_subcommand("import", "Convert files of other formats into a data set");
  import.require_subcommand();
  add_import_idx(import);
  add_import_images(import);
  add_import_text(import);
  add_import_tokens(import);
  add_import_table(import);
  add_import_fields(import);
  add_info(command);
}

}  // namespace distdl::app
