// SPDX-License-Identifier: Apache-2.0
// Any text as a manifest: refused, or understood so that it can be written and read again. The first byte tells whether
// the checksum is made to hold, so that the fuzzer comes behind it.
#include <cstdint>
#include <cstdlib>

#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/manifest.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace distdl::checkpoint;
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] & 1) {
    text += '\n';
    distdl::Sha256 hash;
    hash.update(std::as_bytes(std::span(text)));
    text += "sha256 " + hash.hex() + "\n";
  }
  try {
    Manifest manifest = parse_manifest(text, "fuzz");
    check_manifest(manifest, "fuzz");
    std::string again = to_text(manifest);
    if (to_text(parse_manifest(again, "fuzz")) != again) std::abort();
  } catch (const distdl::StorageError&) {
  }
  return 0;
}
