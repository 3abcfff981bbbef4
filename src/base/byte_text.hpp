// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace distdl {

/// A size as people read it, in powers of two: "512 bytes", "4.9 KiB", "412 MiB". Rates of links are in powers of ten
/// where they are compared with those of the vendors.
std::string bytes_text(double bytes);

}  // namespace distdl
