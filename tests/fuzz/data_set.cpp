// SPDX-License-Identifier: Apache-2.0
// Any bytes as a data set. Input: a byte of flags, two bytes (an element type and a number), the file. Flag 1: HDF5's
// own checksums of the file's metadata are made to hold. Flag 2: not what the description tells is read, but /tokens as
// the two bytes tell, so that mistakes behind the description's checksum are reached.
#include <cstring>

#include <dlfcn.h>

#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/tokens.hpp>

namespace {
using namespace distdl;
using namespace distdl::data;

/// HDF5's own function, where it can be found.
using Checksum = std::uint32_t (*)(const void* bytes, std::size_t count, std::uint32_t start);

void seal(std::string& file, std::size_t begin, std::size_t bytes) {
  static const auto checksum = reinterpret_cast<Checksum>(::dlsym(RTLD_DEFAULT, "H5_checksum_lookup3"));
  if (!checksum || begin > file.size() || bytes > file.size() - begin || file.size() - begin - bytes < 4) return;
  const std::uint32_t value = checksum(file.data() + begin, bytes, 0);
  std::memcpy(file.data() + begin + bytes, &value, sizeof value);
}

/// The superblock and all object headers, of version 2.
void make_checksums_hold(std::string& file) {
  seal(file, 0, 44);
  for (auto at = file.find("OHDR"); at != file.npos && file.size() - at > 32; at = file.find("OHDR", at + 4)) {
    const unsigned flags = static_cast<unsigned char>(file[at + 5]);
    const std::size_t width = std::size_t{1} << (flags & 3),
                      size_at = at + 6 + (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0);
    std::uint64_t size = 0;
    std::memcpy(&size, file.data() + size_at, std::min<std::size_t>(width, file.size() - size_at));
    if (size < file.size()) seal(file, at, size_at - at + width + size);
  }
}

void read_chunks(const hdf5::File& file, const std::string& path, const DatasetSpec& spec) {
  ChunkReader chunks(file, path, spec.name, spec.type, spec.shape, 0);
  for (std::int64_t number = 0; number < chunks.chunks(); ++number)
    fuzz::demand(!chunks.chunk(number).empty(), "a chunk has bytes");
}

void read_set(const std::string& path) {
  const Description description = describe_file(path);
  const Kind& kind = find_kind(description.kind);
  kind.show(path, description.samples, [](const ShownSample& sample) {
    const auto* const picture = std::get_if<Picture>(&sample);
    fuzz::demand(!picture || picture->pixels.size() == static_cast<std::size_t>(tensor::element_count(picture->shape)),
                 "an image is whole");
  });
  fuzz::demand(verify_file(path).damage.empty(), "what can be read is found well");
}

void read(std::string_view input) {
  static fuzz::MemoryFile memory;
  fuzz::Input rest(input);
  const unsigned flags = rest.number<unsigned char>(), type = rest.number<unsigned char>(),
                 extent = rest.number<unsigned char>();
  std::string bytes(rest.rest());
  if (flags & 1) make_checksums_hold(bytes);
  memory.put(bytes);
  const std::string path = memory.path().string();
  if (!(flags & 2)) return read_set(path);
  const auto element = static_cast<StoredNumber>(type % 4);
  const std::int64_t rows = extent + (std::int64_t{1} << (type >> 4));
  read_chunks(open_hdf5_file(path), path, {kTokens, element, {rows}});
}

const fuzz::Target target("data_set", &read);
}  // namespace
