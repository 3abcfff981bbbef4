// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <sys/types.h>

namespace distdl::program {

/// "libmpi.so.40", if the file is a program that is linked to a library of MPI; empty: it is none, or cannot be read.
std::string mpi_library_of(const std::filesystem::path& program);

/// Name of a library of MPI that a process has loaded so far, as Python does with mpi4py; else empty.
std::string mpi_library_in(pid_t process);

}  // namespace distdl::program
