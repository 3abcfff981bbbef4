// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::app {

/// The program `distdl`: runs the subcommand in the arguments, prints errors, and returns the exit code
/// (docs/exit-codes.md). A user's main() can call it after it has added a model. The ranks of its jobs are started from
/// the same executable.
int program(int argc, char** argv) noexcept;

}  // namespace distdl::app
