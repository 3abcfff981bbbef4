// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace distdl::data {

/// The bytes before the data of EXIF in a JPEG's marker.
inline constexpr std::string_view kExifOfJpeg{"Exif\0\0", 6};

/// The orientation, 1 to 8, that data of EXIF say after `prefix`; 1 if there is none, or if they are damaged.
int orientation_of(std::span<const std::byte> data, std::string_view prefix = {});

/// How an upright image is made from the stored one: by exchange of rows and columns, and then by mirroring.
struct Turn {
  bool exchanges = false, mirrors_columns = false, mirrors_rows = false;
};
Turn turn_of(int orientation);

}  // namespace distdl::data
