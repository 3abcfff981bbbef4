// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/submit/batch_script.hpp>
#include <distdl/submit/script_file.hpp>

namespace distdl::submit {
namespace {
constexpr std::size_t kMostScriptBytes = 4 << 20;  ///< as sbatch
}  // namespace

std::filesystem::path folder_of_script(const std::string& text) {
  const auto folder = parse_batch_script(text, "").options.value("chdir");
  return folder.empty() ? std::filesystem::current_path() : std::filesystem::path(folder);
}

std::string read_own_script(const std::filesystem::path& script) {
  constexpr mode_t kOthersWrite = 0022;
  const FileDescriptor file = open_regular(script);
  struct stat status {};
  const bool is_own = ::fstat(file.get(), &status) == 0 && status.st_uid == ::geteuid();
  require<StorageError>(
      is_own && (status.st_mode & kOthersWrite) == 0,
      "\"{}\" belongs to user {} and has mode {:o}: another user may have chosen what user {}'s job would "
      "do; read it, and submit it by hand: sbatch \"{}\"",
      script.string(), status.st_uid, status.st_mode & 07777, ::geteuid(), script.string());
  return read_regular(file, script, kMostScriptBytes);
}

std::string read_script(const std::filesystem::path& script) {
  std::ifstream in(script, std::ios::binary);
  if (!in || std::filesystem::is_directory(script))
    throw StorageError(fmt::format("cannot open the script \"{}\"", script.string()), ExitCode::incomplete);
  std::string text(kMostScriptBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  require<StorageError>(!in.bad(), "cannot read the script \"{}\"", script.string());
  text.resize(static_cast<std::size_t>(in.gcount()));
  require<StorageError>(text.size() <= kMostScriptBytes,
                        "the script \"{}\" has more than {} bytes, which sbatch refuses", script.string(),
                        kMostScriptBytes);
  return text;
}

}  // namespace distdl::submit
