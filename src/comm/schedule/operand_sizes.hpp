// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// Elements of the operand and of the result of problem.rank, and the number of parts of its operand.
std::size_t input_size(const Problem& problem);
std::size_t output_size(const Problem& problem);
int input_parts(const Problem& problem);

}  // namespace distdl::comm
