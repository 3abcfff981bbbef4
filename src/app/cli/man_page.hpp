// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/app/cli/command_entry.hpp>

namespace distdl::app {

/// The manual page of the whole program, section 1, in the man(7) macros of roff.
std::string man_page(const CommandEntry& root);

}  // namespace distdl::app
