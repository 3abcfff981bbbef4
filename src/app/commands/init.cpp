// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <distdl/app/checks/job_check.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/model/new_job.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/staged_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/files/inputs.hpp>
#include <distdl/files/unfinished_file.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;

struct InitArguments {
  fs::path data, validation, output = "job.toml";
  std::string model;
  bool force = false;
};

bool is_hdf5(const fs::path& file) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
  std::string begin(kSignature.size(), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return in && begin == kSignature;
}

bool is_set(const fs::path& file) try {
  data::describe_file(file);
  return true;
} catch (const Error&) {
  return false;
}

/// The only data set in a folder.
fs::path set_in(const fs::path& folder) {
  std::vector<std::string> sets;
  std::error_code error, ignored;
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    if (each->is_regular_file(ignored) && is_hdf5(each->path()) && is_set(each->path()))
      sets.push_back((folder == "." ? each->path().filename() : each->path()).string());
  const auto where = folder == "." ? std::string("this folder") : fmt::format("\"{}\"", folder.string());
  require<StorageError>(!error, "cannot read {}: {}", where, error.message());
  std::ranges::sort(sets);
  require<UsageError>(!sets.empty(),
                      "there is no data set in {}; make one with \"distdl data make shapes shapes.h5\", or import your "
                      "own with \"distdl data import\"",
                      where);
  require<UsageError>(sets.size() == 1, "there are several data sets in {}: {}; name one, as in: distdl init {}", where,
                      fmt::join(sets, ", "), sets.front());
  return sets.front();
}

void require_set(const fs::path& file) {
  std::error_code ignored;
  // A file that cannot be read is reported later, where it is read.
  require(!fs::is_regular_file(file, ignored) || ::access(file.c_str(), R_OK) != 0 || is_hdf5(file),
          "\"{}\" is not a data set of distdl; import it first: \"distdl data import text {} text.h5\" for a text, "
          "\"distdl data import --help\" for other kinds",
          file.string(), file.string());
  require(is_utf8(file.string()), "the name \"{}\" is not UTF-8, as a job file must be; rename the data set",
          file.string());
}

void init(const InitArguments& arguments) {
  std::error_code ignored;  // reading it tells why
  const fs::path file = fs::is_directory(arguments.data, ignored) ? set_in(arguments.data) : arguments.data;
  require_set(file);
  require_not_input(arguments.output, {file, arguments.validation});
  NewJobData data{file.string(), arguments.validation.string(), data::describe_file(file)};
  const RemovesUnfinishedFiles on_interrupt;
  data::StagedFile staged(arguments.output, arguments.force ? Overwrite::replace : Overwrite::refuse);
  std::vector<std::int32_t> labels;
  if (const data::Kind& kind = data::find_kind(data.set.kind); kind.labels) {
    labels = kind.labels(file);
    data.labels = labels;
  }
  const NewJob made = new_job(data, arguments.model, arguments.output.string());
  const auto facts = check_job(made.job);
  create_text(real_file_system(), staged.temporary(), made.text);
  config::load(staged.temporary(), {});  // what has just been written is what can be read
  staged.publish();
  const auto name = printable(arguments.output.string());
  fmt::print("{}: {}\ncheck it: distdl config --check {}\ntrain:    distdl run --local -n 2 {}\n", name, facts, name,
             name);
}
}  // namespace

/// distdl init. Its callback throws distdl::Error.
void add_init_command(Command app) {
  auto command = app.add_subcommand("init", "Write a job file for a data set, after looking at it");
  auto arguments = std::make_shared<InitArguments>();
  arguments->data = ".";
  command.add_option("DATA", arguments->data,
                     "HDF5 data set, or a folder with one; default: the one in the current folder");
  command.add_option("-o,--output", arguments->output, "Job file to write").show_default();
  command.add_option("--model", arguments->model, "Model to train; default: the one that fits the data")
      .one_of(model::known_models());
  command.add_option("--validation", arguments->validation,
                     "Data set to evaluate on; default: the end of DATA, which is then not trained on");
  command.add_flag("--force", arguments->force, "Replace the job file if it exists");
  command.examples({{"distdl init shapes.h5 -o shapes.toml", "Write a job file for a data set"},
                    {"distdl init shapes.h5 --model resnet18 -o resnet.toml", "Write one for another model"}});
  command.callback([arguments] { init(*arguments); });
}

}  // namespace distdl::app
