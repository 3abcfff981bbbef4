// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <set>

#include <distdl/base/checksum.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/hdf5_structure.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/stored_block.hpp>
#include <distdl/checkpoint/format/verify.hpp>

namespace distdl::checkpoint {
namespace {
std::vector<Extent> extents_of(const Manifest& manifest, std::size_t index) {
  std::vector<Extent> extents;
  for (const StoredTensor& stored : manifest.tensors)
    for (const StoredBox& box : stored.boxes)
      if (box.file == index)
        for (const Extent& extent : extents_of(stored, box)) extents.push_back(extent);
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  return extents;
}

std::uint32_t continue_checksum(OpenFile& file, Extent extent, std::uint32_t crc) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kBlockBytes, extent.end - extent.begin));
  for (std::uint64_t at = extent.begin; at < extent.end; at += buffer.size()) {
    auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), extent.end - at));
    file.read_at(piece, at);
    crc = crc32c(piece, crc);
  }
  return crc;
}

/// Runs a check of a part of a file; what it throws about the disk's content becomes a finding.
template <class Check>
void collect(std::vector<Finding>& findings, const std::string& file, const std::string& tensor, Check&& check) {
  try {
    std::string problem = check();
    if (!problem.empty()) findings.push_back({ExitCode::corrupt, file, tensor, problem});
  } catch (const FileError& error) {
    if (error.number() == ENOENT)
      findings.push_back({ExitCode::incomplete, file, tensor, error.what()});
    else if (error.number() == EIO || error.number() == ELOOP || error.number() == EINVAL)
      findings.push_back({ExitCode::corrupt, file, tensor, error.what()});
    else
      throw;
  } catch (const StorageError& error) {
    pass_on_shortage(error);
    if (error.exit_code() == ExitCode::incompatible) throw;
    findings.push_back({error.exit_code(), file, tensor, error.what()});
  }
}

void verify_box(std::vector<Finding>& findings, OpenFile& file, const StoredTensor& stored, const StoredBox& box,
                Scratch& scratch) {
  std::string name = file.path().filename().string();
  std::vector<std::byte> bytes(box.checksums.empty() ? 0 : bytes_of_block(stored, box, 0));
  for (std::size_t block = 0; block < box.checksums.size(); ++block) {
    std::uint32_t expected = box.chunks.empty() ? box.checksums[block] : box.chunks[block].checksum;
    std::optional<std::uint32_t> found;
    std::size_t before = findings.size();
    collect(findings, name, stored.entry.name, [&] {
      try {
        read_block(file, stored, box, block, std::span(bytes).first(bytes_of_block(stored, box, block)), scratch);
        return std::string();
      } catch (const BlockDamage& damage) {
        expected = damage.expected(), found = damage.found();
        return std::string(damage.what());
      }
    });
    if (findings.size() == before) continue;
    findings.back().block = block;
    findings.back().expected = expected;
    findings.back().found = found;
  }
}

std::vector<Finding> structure_findings(const Path& folder, const Manifest& manifest, std::size_t index) {
  std::vector<Finding> findings;
  const std::string& name = manifest.files[index].name;
  for (const std::string& problem : structure_problems(folder, manifest, index))
    findings.push_back({ExitCode::corrupt, name, "", fmt::format("\"{}\": {}", (folder / name).string(), problem)});
  return findings;
}

/// Files that are no part of the checkpoint. They do no harm, for a restore reads only what the manifest names.
void find_strangers(std::vector<Finding>& findings, const Path& folder, const Manifest& manifest) {
  std::set<std::string> known{kManifestName, kViewName};
  for (const StoredFile& file : manifest.files) known.insert(file.name);
  for (const Path& entry : entries_with_prefix(folder, "")) {
    std::string name = entry.filename().string();
    if (known.contains(name)) continue;
    findings.push_back(
        {ExitCode::corrupt, name, "", fmt::format("\"{}\" is not part of the checkpoint", entry.string())});
  }
}
}  // namespace

std::uint32_t rest_checksum(OpenFile& file, const Manifest& manifest, std::size_t index) {
  std::uint32_t crc = 0;
  std::uint64_t at = 0;
  for (const Extent& extent : extents_of(manifest, index)) {
    if (extent.begin > at) crc = continue_checksum(file, {at, extent.begin}, crc);
    at = std::max(at, extent.end);
  }
  std::uint64_t end = manifest.files[index].bytes;
  return at < end ? continue_checksum(file, {at, end}, crc) : crc;
}

std::vector<Finding> verify_file(OpenFile& file, const Manifest& manifest, std::size_t index, Depth depth) {
  std::vector<Finding> findings;
  const StoredFile& expected = manifest.files[index];
  Scratch scratch;
  for (const StoredTensor& stored : manifest.tensors)
    for (const StoredBox& box : stored.boxes)
      if (box.file == index && depth != Depth::frame) verify_box(findings, file, stored, box, scratch);
  std::optional<std::uint32_t> found;
  std::size_t before = findings.size();
  collect(findings, expected.name, "", [&] {
    found = rest_checksum(file, manifest, index);
    if (found == expected.rest) return std::string();
    return fmt::format("\"{}\": outside the tensors: checksum {:08x} expected, {:08x} found", file.path().string(),
                       expected.rest, *found);
  });
  if (findings.size() > before) {
    findings.back().expected = expected.rest;
    findings.back().found = found;
  }
  return findings;
}

std::vector<Finding> findings_of(const std::function<void()>& reading) {
  std::vector<Finding> findings;
  collect(findings, "", "", [&] {
    reading();
    return std::string();
  });
  return findings;
}

Verified verify_manifest(FileSystem& files, const Path& folder) {
  Verified result;
  collect(result.findings, kManifestName, "", [&] {
    result.manifest = load_manifest(files, folder);
    return std::string();
  });
  return result;
}

std::vector<Finding> verify_listed_file(FileSystem& files, const Path& folder, const Manifest& manifest,
                                        std::size_t index, Depth depth) {
  const StoredFile& expected = manifest.files[index];
  std::vector<Finding> findings;
  collect(findings, expected.name, "", [&] {
    OpenFile file(files, folder / expected.name, OpenFile::Mode::read);
    if (file.size() != expected.bytes)
      return fmt::format("\"{}\" is {} bytes long, but {} were written", file.path().string(), file.size(),
                         expected.bytes);
    if (depth == Depth::sizes) return std::string();
    findings = verify_file(file, manifest, index, depth);
    if (findings.empty() && depth == Depth::structure) findings = structure_findings(folder, manifest, index);
    return std::string();
  });
  return findings;
}

Verified verify_folder(FileSystem& files, const Path& folder, Depth depth) {
  Verified result = verify_manifest(files, folder);
  if (!result.findings.empty()) return result;
  for (std::size_t index = 0; index < result.manifest.files.size(); ++index)
    for (Finding& finding : verify_listed_file(files, folder, result.manifest, index, depth))
      result.findings.push_back(std::move(finding));
  if (depth == Depth::structure) find_strangers(result.findings, folder, result.manifest);
  return result;
}

}  // namespace distdl::checkpoint
