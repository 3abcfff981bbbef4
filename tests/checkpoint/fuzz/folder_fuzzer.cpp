// SPDX-License-Identifier: Apache-2.0
// Any manifest and any data file as a checkpoint folder: verified and read. Input: a byte of flags, two bytes with the
// length of the manifest's JSON, the JSON, the bytes of node0000.h5. Flag 1: the file's checksums in the manifest are
// made to hold, and then all must be found well.
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/tensor_reader.hpp>
#include <distdl/checkpoint/verify.hpp>

namespace {
using namespace distdl::checkpoint;

/// A folder with two files, in memory.
class TwoFiles final : public FileSystem {
 public:
  TwoFiles() : manifest_(::memfd_create("MANIFEST", 0)), data_(::memfd_create("data", 0)) {}
  ~TwoFiles() override { ::close(manifest_), ::close(data_); }
  int open(const char* path, int, mode_t) override {
    std::string_view name(path);
    if (name.ends_with(kManifestName)) return ::dup(manifest_);
    if (name.ends_with("node0000.h5")) return ::dup(data_);
    return errno = ENOENT, -1;
  }
  void put(std::string_view manifest, std::string_view data) {
    fill(manifest_, manifest);
    fill(data_, data);
  }

 private:
  static void fill(int file, std::string_view bytes) {
    if (::ftruncate(file, 0) != 0 ||
        ::pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  int manifest_, data_;
};

std::string sealed(std::string text) {
  distdl::Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return text + "sha256 " + hash.hex() + "\n";
}

std::uint32_t checksum_of(std::string_view bytes) {
  return distdl::crc32c(std::as_bytes(std::span(bytes)));
}

/// False if a chunk cannot be decompressed.
bool make_chunk_hold(const StoredTensor& stored, StoredBox& box, std::size_t block, std::string_view data) {
  StoredChunk& chunk = box.chunks[block];
  auto bytes = data.substr(chunk.offset, chunk.bytes);
  chunk.checksum = checksum_of(bytes);
  std::vector<std::byte> plain(bytes_of_block(stored, box, block)), scratch;
  if (!decompress(box.codec, std::as_bytes(std::span(bytes)), distdl::tensor::size_of(stored.entry.dtype),
                  chunk_bytes(stored, box), plain, scratch)
           .empty())
    return false;
  box.checksums[block] = distdl::crc32c(plain);
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
    std::vector<std::byte> out(static_cast<std::size_t>(distdl::tensor::element_count(stored.entry.shape)) *
                               distdl::tensor::size_of(stored.entry.dtype));
    reader.read(stored, distdl::tensor::whole(stored.entry.shape), out.data());
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static TwoFiles files;
  if (size < 3) return 0;
  std::string_view input(reinterpret_cast<const char*>(bytes), size);
  std::size_t length = std::min<std::size_t>(bytes[1] + 256u * bytes[2], size - 3);
  std::string manifest = sealed(std::string(input.substr(3, length)) + "\n");
  std::string_view data = input.substr(3 + length);
  const Path folder = "/step-000000000002";
  bool must_hold = false;
  files.put(manifest, data);
  try {
    if (bytes[0] & 1) {
      Manifest repaired = load_manifest(files, folder);
      must_hold = make_hold(repaired, files, data);
      files.put(to_text(repaired), data);
    }
    bool well = verify_folder(files, folder).findings.empty();
    if (must_hold && !well) std::abort();
    read_all(files, folder);
  } catch (const distdl::StorageError&) {
    if (must_hold) std::abort();
  }
  return 0;
}
