// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/communicator.hpp>
#include <distdl/forecast/calibration.hpp>
#include <distdl/forecast/work.hpp>
#include <distdl/kernels/backend.hpp>

namespace distdl::forecast {

/// Collective. Trains the job's model on its own samples for about two seconds, all ranks at the same time and each for
/// itself, and measures the parts of a step. Returns the medians of the slowest rank, the same on all ranks. The
/// backend's memory must be the host's.
MeasuredWork measure_work(const train::Recipe& recipe, const Workload& work, kernels::Backend& backend,
                          comm::Communicator& communicator);

/// Returns the floating-point operations per second of a product of two square matrices, by a linear layer of this
/// backend: the best of several products, at least two, which take `seconds` together.
double measure_product(kernels::Backend& backend, std::int64_t size, double seconds);

/// Collective. Returns the best rate of products of several sizes that all ranks make at the same time; the mean over
/// the ranks, the same on all. Takes some seconds.
MeasuredPeak measure_peak(kernels::Backend& backend, comm::Communicator& communicator);

/// Collective. Returns the processor seconds that an all-reduce between nodes takes from each rank per byte of its
/// result; nothing if all ranks are on one node.
std::optional<double> measure_busy_per_byte(comm::Communicator& communicator);

/// Collective. Returns the seconds by which each wait of a sum within a node is longer where it sleeps, as beside a
/// computation; nothing unless all ranks are on one node.
std::optional<double> measure_nap(comm::Communicator& communicator);

/// Returns the seconds, per byte, by which it takes longer to write to memory that was given back.
double measure_touch_per_byte();

}  // namespace distdl::forecast
