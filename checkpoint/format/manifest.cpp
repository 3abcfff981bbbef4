// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::size_t kMostDimensions = 32;  // HDF5's limit

template <class... Args>
void demand(bool condition, const std::string& origin, fmt::format_string<Args...> message, Args&&... args) {
  if (condition) return;
  throw StorageError(fmt::format("{}: {}", origin, fmt::format(message, std::forward<Args>(args)...)),
                     ExitCode::corrupt);
}

void check_box(const Manifest& manifest, const StoredTensor& stored, const StoredBox& box, const std::string& origin) {
  const std::string& name = stored.entry.name;
  demand(lies_inside(box.box, stored.entry.shape) && tensor::element_count(box.box.extent) > 0, origin,
         "tensor \"{}\" has a box at {} with extent {} outside its shape {}", name, tensor::to_string(box.box.offset),
         tensor::to_string(box.box.extent), tensor::to_string(stored.entry.shape));
  demand(box.file < manifest.files.size(), origin, "tensor \"{}\" is in a file that is not listed", name);
  const StoredFile& file = manifest.files[box.file];
  std::uint64_t bytes = bytes_of(stored, box);
  auto demand_inside = [&](std::uint64_t offset, std::uint64_t length) {
    demand(length <= file.bytes && offset <= file.bytes - length, origin, "tensor \"{}\" extends beyond the end of {}",
           name, file.name);
  };
  if (box.chunks.empty()) demand_inside(box.offset, bytes);
  const Compressor* const compressor = entry_of(box.codec).compressor;
  for (const StoredChunk& chunk : box.chunks) {
    demand_inside(chunk.offset, chunk.bytes);
    std::size_t plain = chunk_bytes(stored, box);
    demand(chunk.bytes <= plain && compressor && chunk.bytes * compressor->most_expansion >= plain, origin,
           "tensor \"{}\" has a chunk of {} bytes that stands for {} bytes", name, chunk.bytes, plain);
  }
  demand(box.chunks.empty() || box.chunks.size() == box.checksums.size(), origin,
         "tensor \"{}\" has {} chunks, but {} block checksums", name, box.chunks.size(), box.checksums.size());
  demand(box.checksums.size() == (bytes + kBlockBytes - 1) / kBlockBytes, origin,
         "tensor \"{}\" has {} block checksums for {} bytes", name, box.checksums.size(), bytes);
}

/// Also bounds the time that reading may take: no byte of a file belongs to two boxes.
void check_disjoint(const Manifest& manifest, const std::string& origin) {
  struct Owned : Extent {
    std::size_t file;
    const StoredTensor* tensor;
  };
  std::vector<Owned> extents;
  for (const StoredTensor& stored : manifest.tensors)
    for (const StoredBox& box : stored.boxes)
      for (const Extent& extent : extents_of(stored, box)) extents.push_back({extent, box.file, &stored});
  std::sort(extents.begin(), extents.end(),
            [](const Owned& a, const Owned& b) { return std::pair(a.file, a.begin) < std::pair(b.file, b.begin); });
  for (std::size_t i = 1; i < extents.size(); ++i)
    demand(extents[i - 1].file != extents[i].file || extents[i - 1].end <= extents[i].begin, origin,
           "tensors \"{}\" and \"{}\" share bytes of {}", extents[i - 1].tensor->entry.name,
           extents[i].tensor->entry.name, manifest.files[extents[i].file].name);
}
}  // namespace

std::uint64_t bytes_of(const StoredTensor& tensor, const StoredBox& box) {
  return static_cast<std::uint64_t>(tensor::element_count(box.box.extent)) * tensor::size_of(tensor.entry.dtype);
}

bool is_compressed(const StoredTensor& tensor) {
  return std::any_of(tensor.boxes.begin(), tensor.boxes.end(),
                     [](const StoredBox& box) { return !box.chunks.empty(); });
}

std::size_t chunk_bytes(const StoredTensor& tensor, const StoredBox& box) {
  return std::min<std::uint64_t>(kBlockBytes, bytes_of(tensor, box));
}

std::vector<Extent> extents_of(const StoredTensor& tensor, const StoredBox& box) {
  if (box.chunks.empty()) return {{box.offset, box.offset + bytes_of(tensor, box)}};
  std::vector<Extent> extents;
  for (const StoredChunk& chunk : box.chunks) extents.push_back({chunk.offset, chunk.offset + chunk.bytes});
  return extents;
}

void check_shape(const TensorEntry& entry, const std::string& origin) {
  demand(is_valid_name(entry.name), origin, "\"{}\" cannot be the name of a tensor", entry.name);
  demand(entry.shape.size() <= kMostDimensions, origin, "tensor \"{}\" has {} dimensions", entry.name,
         entry.shape.size());
  auto bytes = static_cast<std::int64_t>(tensor::size_of(entry.dtype));
  for (std::int64_t extent : entry.shape)
    demand(extent >= 0 && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes), origin,
           "tensor \"{}\" has the impossible shape {}", entry.name, tensor::to_string(entry.shape));
}

void check_manifest(const Manifest& manifest, const std::string& origin) {
  demand(manifest.step.value >= 0 && manifest.world_size > 0, origin, "impossible step {} or world {}", manifest.step,
         manifest.world_size);
  for (const StoredFile& file : manifest.files) {
    demand(is_data_file_name(file.name), origin, "\"{}\" cannot be the name of a data file", file.name);
    demand(file.bytes <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}, origin, "{} cannot be {} bytes long",
           file.name, file.bytes);
  }
  const auto place = [](const StoredFile& file) { return std::pair(file.name.size(), std::string_view(file.name)); };
  for (std::size_t i = 1; i < manifest.files.size(); ++i)  // "node10000.h5" comes after "node9999.h5"
    demand(place(manifest.files[i - 1]) < place(manifest.files[i]), origin, "files are not in order");
  for (const auto& [key, value] : manifest.state)
    demand(is_valid_name(key), origin, "\"{}\" cannot be the key of a state", key);

  std::set<std::string_view> names, keys;
  for (const StoredTensor& stored : manifest.tensors) names.insert(stored.entry.name);
  for (const auto& [key, value] : manifest.state) keys.insert(key);
  for (const auto& both : {names, keys})
    demand(name_within_another(both).empty(), origin, "\"{}\" begins with another name and a '/'",
           name_within_another(both));

  const StoredTensor* previous = nullptr;
  for (const StoredTensor& stored : manifest.tensors) {
    check_shape(stored.entry, origin);
    demand(!previous || previous->entry.name < stored.entry.name, origin, "tensors are not in name order");
    previous = &stored;
    std::vector<tensor::Box> boxes;
    for (const StoredBox& box : stored.boxes) {
      check_box(manifest, stored, box, origin);
      boxes.push_back(box.box);
    }
    demand(cover_exactly(stored.entry.shape, boxes), origin,
           "the {} boxes of tensor \"{}\" do not hold each element of {} exactly once", stored.boxes.size(),
           stored.entry.name, tensor::to_string(stored.entry.shape));
  }
  check_disjoint(manifest, origin);
}

Manifest join(const std::vector<Manifest>& parts) {
  Manifest whole;
  std::map<std::string, StoredTensor> tensors;
  for (const Manifest& part : parts) {
    std::size_t first_file = whole.files.size();
    whole.files.insert(whole.files.end(), part.files.begin(), part.files.end());
    for (const StoredTensor& stored : part.tensors) {
      StoredTensor& joined = tensors.try_emplace(stored.entry.name, StoredTensor{stored.entry, {}}).first->second;
      if (joined.entry != stored.entry)
        throw StorageError(fmt::format("ranks disagree about tensor \"{}\": it is {} {} and {} {}", stored.entry.name,
                                       tensor::code_of(joined.entry.dtype), tensor::to_string(joined.entry.shape),
                                       tensor::code_of(stored.entry.dtype), tensor::to_string(stored.entry.shape)),
                           ExitCode::incompatible);
      for (StoredBox box : stored.boxes) {
        box.file += first_file;
        joined.boxes.push_back(std::move(box));
      }
    }
  }
  for (auto& [name, stored] : tensors) whole.tensors.push_back(std::move(stored));
  return whole;
}

Manifest load_manifest(FileSystem& files, const std::filesystem::path& folder) {
  std::filesystem::path path = folder / kManifestName;
  auto text = read_text(files, path, kLargestManifest);
  if (!text)
    throw StorageError(
        fmt::format("\"{}\" has no {}: it is not a committed checkpoint", folder.string(), kManifestName),
        ExitCode::incomplete);
  Manifest manifest = parse_manifest(*text, path.string());
  check_manifest(manifest, path.string());
  auto step = step_of_folder(folder.filename().string());
  demand(!step || *step == manifest.step, path.string(), "it is the manifest of step {}", manifest.step);
  return manifest;
}

Summary summary_of(const Manifest& manifest, const std::filesystem::path& folder) {
  Summary summary{manifest.step, folder, 0, manifest.written_at, manifest.world_size, {}, manifest.state};
  summary.start = manifest.start;
  for (const StoredTensor& stored : manifest.tensors)
    for (const StoredBox& box : stored.boxes) {
      summary.plain_bytes += bytes_of(stored, box);
      for (const Extent& extent : extents_of(stored, box)) summary.stored_bytes += extent.end - extent.begin;
    }
  for (const StoredFile& file : manifest.files) summary.bytes += file.bytes;
  for (const StoredTensor& stored : manifest.tensors) summary.tensors.push_back(stored.entry);
  return summary;
}

}  // namespace distdl::checkpoint
