// SPDX-License-Identifier: Apache-2.0
// What tools do with checkpoints that nobody is writing to: list, open, verify, digest.
#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/boxes.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/store.hpp>
#include <distdl/checkpoint/tensor_reader.hpp>
#include <distdl/checkpoint/verify.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::int64_t kSlabElements = std::int64_t{8} << 20;

void update(Sha256& hash, const std::string& text) {
  hash.update(std::as_bytes(std::span(text)));
}
}  // namespace

std::vector<Summary> list(const std::filesystem::path& root) {
  std::vector<Summary> found;
  for (const auto& [step, folder] : step_folders(root)) try {
      found.push_back(summary_of(load_manifest(real_file_system(), folder), folder));
    } catch (const StorageError&) {  // what is wrong with it is verify's business
    }
  return found;
}

Summary open(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / kManifestName, ignored))
    return summary_of(load_manifest(real_file_system(), folder), folder);
  auto found = list(folder);
  if (found.empty())
    throw StorageError(fmt::format("there is no checkpoint in \"{}\"", folder.string()), ExitCode::incomplete);
  return found.back();
}

std::vector<Finding> verify(const std::filesystem::path& folder, Depth depth) try {
  return verify_folder(real_file_system(), folder, depth).findings;
} catch (const StorageError& error) {
  if (error.exit_code() != ExitCode::incompatible) throw;
  return {{ExitCode::incompatible, kManifestName, "", error.what()}};
}

std::string digest(const Summary& checkpoint) {
  TensorReader reader(real_file_system(), checkpoint.folder);
  Sha256 hash;
  std::vector<std::byte> slab;
  for (const StoredTensor& stored : reader.manifest().tensors) {
    const TensorEntry& entry = stored.entry;
    update(hash, fmt::format("{}\n{}\n{}\n", entry.name, tensor::name_of(entry.dtype), tensor::to_string(entry.shape)));
    for_each_slab(entry.shape, kSlabElements, [&](const tensor::Box& box) {
      slab.resize(static_cast<std::size_t>(tensor::element_count(box.extent)) * tensor::size_of(entry.dtype));
      reader.read(stored, box, slab.data());
      hash.update(slab);
    });
  }
  return hash.hex();
}

}  // namespace distdl::checkpoint
