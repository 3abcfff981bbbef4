// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include <distdl/kernels/cuda/optimizers/optimizers.hpp>
#include <distdl/kernels/cuda/optimizers/range_kernels.cuh>
#include <distdl/kernels/cuda/primitives/launch.cuh>

namespace distdl::kernels::cuda {
namespace {
/// body(update, i) for each element, `update` being body.of() its range.
template <class Body>
void for_each_range(const Device& device, const RangeTable& table, const Body& body) {
  if (table.parts == 0) return;
  ranges_kernel<<<static_cast<unsigned>(table.parts * kPiecesOfPart), kThreads, 0, device.stream()>>>(table, body);
  check(cudaGetLastError(), "start a kernel");
}

/// Places in the scratch memory.
struct Sums {
  Sums(const Device& device, const RangeTable& table)
      : parts(static_cast<double*>(device.scratch())), squares(parts + table.parts), rates(squares + table.count) {}
  double* parts;
  double* squares;
  double* rates;
};

/// elementwise::ordered_sum() of each range.
template <class Term, class Take>
void ordered_sums(const Device& device, const RangeTable& table, const Term& term, const Take& take) {
  double* parts = Sums(device, table).parts;
  sum_each(device, table.parts, kPart, SumOfPart<Term>{term, table, parts});
  sum_each(device, table.count, table.most_parts, SumOfRange<Take>{table, parts, take});
}

template <class Step>
void update_ranges(const Device& device, const Step* step, const UpdateArenas& arenas, const RangeTable& table) {
  const double* rates = nullptr;
  if constexpr (Adaptive<Step>) {
    const Sums sums(device, table);
    ordered_sums(device, table, Square{arenas.parameters}, StoreSum{sums.squares});
    ordered_sums(device, table, Term<Step, Terms::first>{step, arenas},
                 StoreRate<Step>{step, table.ranges, sums.squares, sums.rates});
    rates = sums.rates;
  }
  for_each_range(device, table, Update<Step>{step, arenas, rates});
}
}  // namespace

void update(const Device& device, const OptimizerStep& step, const UpdateArenas& arenas, const RangeTable& table) {
  std::visit([&](const auto* numbers) { update_ranges(device, numbers, arenas, table); }, step);
}

void sums_of_squares(const Device& device, const float* data, const RangeTable& table, double* sums) {
  ordered_sums(device, table, Square{data}, StoreSum{sums});
}

void sums_of_terms(const Device& device, const AdaptiveStep& step, const UpdateArenas& arenas, const RangeTable& table,
                   double* sums) {
  std::visit(
      [&]<class Step>(const Step* numbers) {
        ordered_sums(device, table, Term<Step, Terms::known>{numbers, arenas}, StoreSum{sums});
      },
      step);
}

}  // namespace distdl::kernels::cuda
