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
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/idx_import.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/shapes.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/files/unfinished_file.hpp>

namespace distdl::app {
namespace {

using data::Description;

/// Number of times that imports of text and tokens read their files: they count first.
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

/// Makes or imports the set `file`, shows how far that is, and prints what was written.
template <class Write>
void write_set(const std::filesystem::path& file, const std::string& doing, WorkUnit unit, std::uint64_t total,
               Write&& write) {
  const RemovesUnfinishedFiles on_interrupt;
  std::optional<WorkProgress> progress(std::in_place, doing, unit, total);
  const Description set = write();
  progress.reset();  // the result takes its place
  fmt::print("{}: {} {}{}, {} {}, {}\n", printable(file.string()), set.samples, set.kind,
             set.shape.empty() ? "" : " of " + tensor::to_string(set.shape), set.classes,
             data::find_kind(set.kind).is_sequence ? "symbols" : "classes",
             bytes_text(static_cast<double>(set.stored_bytes)));
}

/// Imports files, each of which is read `times` times. How much there is to read of a pipe is not known.
template <class Write>
void import_set(const std::vector<std::filesystem::path>& from, std::uint64_t times, const std::filesystem::path& file,
                Write&& write) {
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
  line("classes", std::to_string(set.classes));
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

void print_images(const data::Kind& kind, const InfoOptions& options) {
  std::int64_t index = 0;
  kind.show(options.file, options.preview, [&index](const data::ShownSample& sample) {
    if (const auto* const picture = std::get_if<data::Picture>(&sample)) print_image(*picture, index++);
  });
}

nlohmann::json to_json(const InfoOptions& options, const Description& set) {
  nlohmann::json document{{"file", options.file.string()}, {"kind", set.kind},       {"origin", set.origin},
                          {"samples", set.samples},        {"classes", set.classes}, {"bytes", set.stored_bytes}};
  if (!set.shape.empty()) document["shape"] = set.shape;
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
    const auto counts = count_labels(kind.labels(options.file), set.classes);
    document["samples_per_class"] = counts;
    if (!options.json) print_counts(counts);
    if (!options.json && options.preview > 0) print_images(kind, options);
  }
  if (options.json) fmt::print("{}\n", document.dump(2));
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
  auto idx = import.add_subcommand("idx", "Images and labels in MNIST's IDX format, plain or gzip");
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

void add_import_text(Command import) {
  auto text = import.add_subcommand("text", "Any file, plain or gzip; each byte is a token");
  struct Given {
    std::filesystem::path text, output;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  text.add_option("FILE", given->text, "File to read").required();
  text.add_option("OUT", given->output, "HDF5 file to write").required();
  add_force(text, given->force);
  text.examples({{"distdl data import text shakespeare.txt text.h5", "Import a text"}});
  text.callback([given] {
    import_set({given->text}, kReads, given->output,
               [&] { return data::import_text(given->text, given->output, overwrite(given->force)); });
  });
}

void add_import_tokens(Command import) {
  auto tokens = import.add_subcommand("tokens", "Token numbers in uint16, little-endian, as in llm.c and nanoGPT");
  struct Given {
    std::filesystem::path tokens, output;
    std::int64_t vocabulary = 50257;
    bool force = false;
  };
  auto given = std::make_shared<Given>();
  tokens.add_option("FILE", given->tokens, "File to read, plain or gzip").required();
  tokens.add_option("OUT", given->output, "HDF5 file to write").required();
  tokens.add_option("--vocabulary", given->vocabulary, "Number of different tokens; 50257: GPT-2's")
      .within(1, 1 << 16)
      .show_default();
  add_force(tokens, given->force);
  tokens.examples(
      {{"distdl data import tokens train.bin tokens.h5", "Import tokens of GPT-2"},
       {"distdl data import tokens train.bin tokens.h5 --vocabulary 65", "Import tokens of another vocabulary"}});
  tokens.callback([given] {
    import_set({given->tokens}, kReads, given->output, [&] {
      return data::import_tokens(given->tokens, given->vocabulary, given->output, overwrite(given->force));
    });
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
  add_import_text(import);
  add_import_tokens(import);
  add_info(command);
}

}  // namespace distdl::app
