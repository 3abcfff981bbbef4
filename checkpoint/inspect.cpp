// SPDX-License-Identifier: Apache-2.0
// Functions for tools on checkpoints that are not being written: list, open, verify, digest.
#include <algorithm>

#include <distdl/base/checksum.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/tensor_pieces.hpp>
#include <distdl/checkpoint/format/verify.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {
namespace {
void update(Sha256& hash, const std::string& text) {
  hash.update(std::as_bytes(std::span(text)));
}
}  // namespace

std::vector<Summary> list(const std::filesystem::path& root) {
  std::vector<Summary> found;
  for (const auto& [step, folder] : step_folders(root)) try {
      found.push_back(summary_of(load_manifest(real_file_system(), folder), folder));
    } catch (const StorageError& error) {  // verify reports what is wrong with it
      pass_on_shortage(error);
    }
  return found;
}

std::filesystem::path checkpoint_in(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (step_of_folder(folder.filename().string()) || std::filesystem::exists(folder / kManifestName, ignored))
    return folder;
  auto folders = step_folders(folder);
  if (folders.empty())
    throw StorageError(
        fmt::format("there is no checkpoint in \"{}\": folders with names such as {} were expected. Has its "
                    "run saved already, and is it the run's folder (run.dir)?",
                    folder.string(), step_folder_name(Step(100))),
        ExitCode::incomplete);
  return folders.rbegin()->second;
}

Summary open(const std::filesystem::path& folder) {
  std::filesystem::path one = checkpoint_in(folder);
  return summary_of(load_manifest(real_file_system(), one), one);
}

std::vector<Finding> verify(const std::filesystem::path& folder, Depth depth) try {
  return verify_folder(real_file_system(), folder, depth).findings;
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::incompatible) throw;
  return {{ExitCode::incompatible, kManifestName, "", error.what()}};
}

void verify_structure(const std::filesystem::path& folder, std::vector<Finding>& findings) {
  const auto is_of_manifest = [](const Finding& finding) { return finding.file == kManifestName; };
  if (std::ranges::any_of(findings, is_of_manifest)) return;
  Verified verified = verify_manifest(real_file_system(), folder);
  verified.findings.insert(verified.findings.begin(), findings.begin(), findings.end());
  verify_structure(folder, verified);
  findings = std::move(verified.findings);
}

std::string digest(const Summary& checkpoint) {
  TensorReader reader(real_file_system(), checkpoint.folder);
  Sha256 hash;
  for (const StoredTensor& stored : reader.manifest().tensors) {
    const TensorEntry& entry = stored.entry;
    update(hash, fmt::format("{}\n{}\n{}\n", entry.name, tensor::code_of(entry.dtype), tensor::to_string(entry.shape)));
    for_each_piece(reader, entry, [&](std::span<std::byte> piece) { hash.update(piece); });
  }
  return hash.hex();
}

}  // namespace distdl::checkpoint
