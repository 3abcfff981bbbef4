// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <distdl/data/source.hpp>

namespace distdl::data {

/// A part of the samples of a shared object of the user's, see distdl_source.h. The object stays loaded. `text`: what
/// it gets. `count`: of the samples from `first` on; nothing: all others. Throws ConfigError if the file is no such
/// object, or one of another version, with what it says itself; and for impossible descriptions. The source's read()
/// throws StorageError with what the object says.
std::unique_ptr<Source> open_own_source(const std::string& library, const std::string& text, std::int64_t first,
                                        std::optional<std::int64_t> count);

}  // namespace distdl::data
