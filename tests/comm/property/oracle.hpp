// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <distdl/comm/element.hpp>
#include <distdl/comm/sum_tree.hpp>

namespace distdl::comm::oracle {

/// What the collectives promise, in plain loops over double precision; shares nothing with the code under test but the
/// shape of the tree.

/// The nearest value of `type`, ties to even.
double rounded(DataType type, double value);
double read(DataType type, const std::byte* element);
/// `value` must be one of `type`.
void write(DataType type, double value, std::byte* element);

std::vector<std::byte> encoded(DataType type, std::span<const double> values);

/// One operation, rounded to `type`. float64 sums are those of the processor.
double reduced(DataType type, Reduction reduction, double left, double right);
/// An average's last step.
double averaged(DataType type, double sum, int terms);

/// leaf(l) is the value of leaf l; the tree below `node`.
double tree_value(DataType type, Reduction reduction, TreeNode node, int leaves,
                  const std::function<double(int)>& leaf);

/// How far a sum of these values may be from the exact one, in whatever order they are added.
double tolerance(DataType type, double sum_of_magnitudes, int terms);

}  // namespace distdl::comm::oracle
