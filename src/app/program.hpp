// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::app {

/// The program `distdl`: runs the subcommand that the arguments name, prints what goes wrong, and returns the exit code
/// (docs/exit-codes.md). For a main() of one's own, which first adds a model; the ranks of its jobs are started from
/// the same executable.
int program(int argc, char** argv) noexcept;

}  // namespace distdl::app
