// SPDX-License-Identifier: Apache-2.0
// Any text as a manifest: refused, or understood so that it can be written and read again. The first byte tells whether
// the checksum is made to hold, so that the fuzzer comes behind it.
#include "target.hpp"
#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/format/manifest.hpp>

namespace {
using namespace distdl;
using namespace distdl::checkpoint;

void read(std::string_view input) {
  if (input.empty()) return;
  std::string text(input.substr(1));
  if (input[0] & 1) {
    text += '\n';
    Sha256 hash;
    hash.update(std::as_bytes(std::span(text)));
    text += "sha256 " + hash.hex() + "\n";
  }
  Manifest manifest = parse_manifest(text, "fuzz");
  check_manifest(manifest, "fuzz");
  const std::string again = to_text(manifest);
  fuzz::demand(to_text(parse_manifest(again, "fuzz")) == again, "a manifest can be written and read again");
}

const fuzz::Target target("manifest", &read);
}  // namespace
