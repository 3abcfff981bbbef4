// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>

namespace distdl::model {

/// For each layer of a model with slices of rows: true if the rows of its output can lie apart, those of each slice
/// with the ranks that have it. This holds for norms, dropout and position embeddings outside of the branches, and for
/// sums over shards, of sequences (N, T, C), but not for the last layer of the model.
std::vector<bool> sliced_outputs(const Description& model, const Wiring& wiring);
/// True if the layer computes each row of a sequence from the same row of its input alone.
bool is_by_rows(const kernels::LayerSpec& spec);

/// Where the rows of slices [first, first + count) lie among all values of a dense output (N, T, C).
struct RowRange {
  std::size_t first = 0, count = 0;  ///< values
};
RowRange rows_of(const tensor::Shape& shape, std::int64_t slices, std::int64_t first, std::int64_t count);
/// Returns the number of values of each slice.
std::vector<std::size_t> row_counts(const tensor::Shape& shape, std::int64_t slices);

/// A layer by rows whose gradients of parameters are sums over the slices, along the sum tree with a slice for a leaf:
/// their bits do not depend on which rank has which slices.
class RowSlices : public kernels::Layer {
 public:
  /// Sets the first of these addends to the sum over all slices.
  using Sum = std::function<void(const kernels::ActivationFormat&, std::span<void* const> addends)>;
  /// For an input (N, T, C), of which x, y and their gradients have the rows of the slices of `part`. The dy of
  /// backward_weights() has all rows, if weights_read_all_rows(). `backend` must outlive the layer.
  RowSlices(kernels::Backend& backend, const kernels::LayerSpec& spec, const kernels::ActivationFormat& input,
            const RowPart& part, Sum sum);
  /// True for position embeddings: their gradient is not summed over slices, which would need a table each.
  static bool weights_read_all_rows(const kernels::LayerSpec& spec);
  /// Format of all rows.
  const kernels::ActivationFormat& output() const override { return output_; }
  void load_parameters(kernels::ConstPointers parameters) override;
  void forward(const void* x, void* y, kernels::Phase phase) override;
  void backward_input(const void* x, const void* y, const void* dy, void* dx) override;
  void backward_weights(const void* x, const void* dy, kernels::Pointers gradients) override;

 private:
  /// The rows of a slice here that is not empty.
  struct Slice {
    std::unique_ptr<kernels::Layer> layer;
    std::size_t at = 0;      ///< bytes from the first row here
    std::size_t number = 0;  ///< number among the slices here
  };
  kernels::Backend& backend_;
  kernels::ActivationFormat output_;
  std::vector<Slice> slices_;
  std::unique_ptr<kernels::Layer> whole_;  ///< if the weights read all rows
  std::vector<std::size_t> counts_;        ///< number of values of each parameter
  std::size_t count_ = 0;                  ///< number of values of all parameters
  std::vector<tensor::Buffer> partials_;   ///< for each slice here, gradients of all parameters, one after the other
  Sum sum_;
};

}  // namespace distdl::model
