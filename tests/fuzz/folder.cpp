// SPDX-License-Identifier: Apache-2.0
// Any manifest and any data file as a checkpoint folder: verified and read. Input: a byte of flags, two bytes with the
// length of the manifest's JSON, the JSON, the bytes of node0000.h5. Flag 1: the file's checksums in the manifest are
// made to hold, and then all must be found well.
#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/tensor_reader.hpp>
#include <distdl/checkpoint/format/verify.hpp>

namespace {
using namespace distdl;
using namespace distdl::checkpoint;

std::string sealed(std::string text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return text + "sha256 " + hash.hex() + "\n";
}

std::uint32_t checksum_of(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes)));
}

/// False if a chunk cannot be decompressed.
bool make_chunk_hold(const StoredTensor& stored, StoredBox& box, std::size_t block, std::string_view data) {
  StoredChunk& chunk = box.chunks[block];
  auto bytes = data.substr(chunk.offset, chunk.bytes);
  chunk.checksum = checksum_of(bytes);
  std::vector<std::byte> plain(bytes_of_block(stored, box, block)), scratch;
  if (!decompress(box.codec, std::as_bytes(std::span(bytes)), tensor::size_of(stored.entry.dtype),
                  chunk_bytes(stored, box), plain, scratch)
           .empty())
    return false;
  box.checksums[block] = crc32c(plain);
  return true;
}

/// Puts the checksums that the file has into the manifest. False if they cannot all hold.
bool make_hold(Manifest& manifest, FileSystem& files, std::string_view data) {
  if (manifest.files.size() != 1 || manifest.files[0].name != "node0000.h5" || manifest.files[0].bytes != data.size())
    return false;
  bool hold = true;
  for (StoredTensor& stored : manifest.tensors)
    for (StoredBox& box : stored.boxes)
      for (std::size_t block = 0; block < box.checksums.size(); ++block) {
        if (!box.chunks.empty()) {
          hold = make_chunk_hold(stored, box, block, data) && hold;
          continue;
        }
        std::uint64_t begin = block * kBlockBytes, end = bytes_of(stored, box);
        box.checksums[block] =
            checksum_of(data.substr(box.offset + begin, std::min<std::uint64_t>(kBlockBytes, end - begin)));
      }
  OpenFile file(files, "/step-000000000002/node0000.h5", OpenFile::Mode::read);
  manifest.files[0].rest = rest_checksum(file, manifest, 0);
  return hold;
}

void read_all(FileSystem& files, const Path& folder) {
  TensorReader reader(files, folder);
  for (const StoredTensor& stored : reader.manifest().tensors) {
    std::vector<std::byte> out(static_cast<std::size_t>(tensor::element_count(stored.entry.shape)) *
                               tensor::size_of(stored.entry.dtype));
    reader.read(stored, tensor::whole(stored.entry.shape), out.data());
  }
}
void read(std::string_view input) {
  static fuzz::MemoryFiles files;
  if (input.size() < 3) return;
  fuzz::Input rest(input);
  const bool repairs = rest.number<char>() & 1;
  const std::string manifest = sealed(std::string(rest.text()) + "\n");
  const std::string_view data = rest.rest();
  const Path folder = "/step-000000000002";
  bool must_hold = false;
  files.put(kManifestName, manifest);
  files.put("node0000.h5", data);
  try {
    if (repairs) {
      Manifest repaired = load_manifest(files, folder);
      must_hold = make_hold(repaired, files, data);
      files.put(kManifestName, to_text(repaired));
    }
    const bool well = verify_folder(files, folder).findings.empty();
    fuzz::demand(well || !must_hold, "what is well is found well");
    read_all(files, folder);
  } catch (const StorageError& error) {
    fuzz::demand(!must_hold, error.what());
  }
}

const fuzz::Target target("folder", &read);
}  // namespace
