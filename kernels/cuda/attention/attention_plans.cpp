// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <distdl/kernels/cuda/attention/attention_plans.hpp>

namespace distdl::kernels::cuda {
namespace {
enum Id : std::int64_t {
  id_queries = 1,
  id_keys,
  id_values,
  id_y,
  id_logarithms,
  id_dy,
  id_means,
  id_dqueries_sum,
  id_dqueries,
  id_dkeys,
  id_dvalues
};

using Tensor = DnnGraph::Tensor;

/// Operations on the scores of attention. cuDNN knows its own kernels by the order of operations and by the types and
/// views between them: they are those of NVIDIA's cudnn-frontend.
class ScoreGraph {
 public:
  ScoreGraph(const AttentionExtents& of, tensor::DataType type)
      : of_(of),
        type_(type == tensor::DataType::bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF),
        scores_(dense_view({of.samples, of.heads, of.places, of.places})),
        rows_(dense_view({of.samples, of.heads, of.places, 1})) {}

  const DnnView& scores() const { return scores_; }
  const DnnView& rows() const { return rows_; }
  DnnGraph& graph() { return graph_; }

  // In memory.
  DnnView queries_view() const { return heads_view(of_, of_.x_heads(), of_.heads); }
  DnnView keys_view() const { return heads_view(of_, of_.x_heads(), of_.kv_heads); }
  DnnView y_view() const { return heads_view(of_, of_.heads, of_.heads); }
  Tensor heads(Id id, const DnnView& view) { return graph_.memory(id, type_, view); }
  Tensor row_floats(Id id) { return graph_.memory(id, CUDNN_DATA_FLOAT, rows_); }

  // Within a kernel.
  Tensor floats(const DnnView& view) { return graph_.within(CUDNN_DATA_FLOAT, view); }
  Tensor shorts(const DnnView& view) { return graph_.within(type_, view); }
  Tensor apply(cudnnPointwiseMode_t mode, Tensor x, Tensor b = nullptr) { return apply_to(scores_, mode, x, b); }
  Tensor apply_to(const DnnView& view, cudnnPointwiseMode_t mode, Tensor x, Tensor b = nullptr) {
    const Tensor y = floats(view);
    graph_.apply(mode, x, b, y);
    return y;
  }
  Tensor reduce(cudnnReduceTensorOp_t operation, Tensor x) {
    const Tensor y = floats(rows_);
    graph_.reduce(operation, x, y);
    return y;
  }
  Tensor multiply(Tensor a, Tensor b) {
    const Tensor y = floats(scores_);
    graph_.multiply(a, b, y);
    return y;
  }
  Tensor view_as_shorts(Tensor x, const DnnView& view) {
    const Tensor y = shorts(view);
    graph_.view(x, y);
    return y;
  }
  Tensor scale() { return graph_.number(1 / std::sqrt(static_cast<float>(of_.width))); }

  /// Scores that a query may not see become -infinity.
  Tensor mask(Tensor scores) {
    if (!of_.is_causal) return scores;
    const Tensor query = graph_.within(CUDNN_DATA_INT32, scores_), key = graph_.within(CUDNN_DATA_INT32, scores_);
    const Tensor is_seen = graph_.within(CUDNN_DATA_BOOLEAN, scores_);
    graph_.index(2, scores, query);
    graph_.index(3, scores, key);
    graph_.compare(query, key, is_seen);
    const Tensor masked = floats(scores_);
    graph_.apply(CUDNN_POINTWISE_BINARY_SELECT, scores, graph_.number(-std::numeric_limits<float>::infinity()), masked,
                 is_seen);
    return masked;
  }

  /// Writes the sum of `of_heads`, a value for each query head, over the heads of a group.
  void add_up(Tensor a, Tensor b, const DnnView& of_heads, Tensor sum) {
    if (of_.heads == of_.kv_heads) return graph_.multiply(a, b, sum);
    const Tensor parts = shorts(of_heads);
    graph_.multiply(a, b, parts);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, parts, sum);
  }

 private:
  AttentionExtents of_;
  cudnnDataType_t type_;
  DnnView scores_, rows_;
  DnnGraph graph_;
};

DnnGraph forward_graph(const AttentionExtents& of, tensor::DataType type) {
  ScoreGraph make(of, type);
  const Tensor queries = make.heads(id_queries, make.queries_view()),
               keys = make.heads(id_keys, make.keys_view().turned()), values = make.heads(id_values, make.keys_view());
  Tensor scores = make.multiply(queries, keys);
  scores = make.mask(make.apply(CUDNN_POINTWISE_MUL, scores, make.scale()));

  const Tensor largest = make.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Tensor exponentials = make.apply(CUDNN_POINTWISE_EXP, make.apply(CUDNN_POINTWISE_SUB, scores, largest));
  const Tensor sums = make.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials);
  make.graph().apply(CUDNN_POINTWISE_ADD, largest, make.apply_to(make.rows(), CUDNN_POINTWISE_LOG, sums),
                     make.row_floats(id_logarithms));
  const Tensor probabilities = make.shorts(make.scores());
  make.graph().apply(CUDNN_POINTWISE_DIV, exponentials, sums, probabilities);
  make.graph().multiply(probabilities, values, make.heads(id_y, make.y_view()));
  return std::move(make.graph());
}

/// The gradient of the queries is one product with that of the scores, which cuDNN keeps in 16 bits in its workspace.
/// Else it adds up parts of that product in fp32, with less memory, but by atomic additions.
DnnGraph backward_graph(const AttentionExtents& of, tensor::DataType type, bool is_deterministic) {
  ScoreGraph make(of, type);
  const DnnView turned_scores = make.scores().turned();
  const DnnView of_heads = dense_view({of.samples, of.heads, of.places, of.width});
  const Tensor queries = make.heads(id_queries, make.queries_view()),
               keys = make.heads(id_keys, make.keys_view().turned()),
               values = make.heads(id_values, make.keys_view().turned());
  const Tensor y = make.heads(id_y, make.y_view()), dy = make.heads(id_dy, make.y_view());
  const Tensor logarithms = make.row_floats(id_logarithms), means = make.row_floats(id_means);

  const Tensor slopes = make.reduce(CUDNN_REDUCE_TENSOR_ADD, make.apply_to(of_heads, CUDNN_POINTWISE_MUL, dy, y));
  make.graph().apply(CUDNN_POINTWISE_MUL, slopes, make.graph().number(1), means);

  const Tensor scale = make.scale();
  Tensor scores = make.multiply(queries, keys);
  scores = make.apply(CUDNN_POINTWISE_MUL, scores, scale);
  scores = make.mask(make.apply(CUDNN_POINTWISE_SUB, scores, logarithms));
  const Tensor probabilities = make.apply(CUDNN_POINTWISE_EXP, scores);
  make.add_up(make.view_as_shorts(probabilities, turned_scores), dy, of_heads,
              make.heads(id_dvalues, make.keys_view()));

  Tensor dscores = make.multiply(dy, values);
  dscores = make.apply(CUDNN_POINTWISE_SUB, dscores, means);
  dscores = make.apply(CUDNN_POINTWISE_MUL, dscores, probabilities);
  dscores = make.apply(CUDNN_POINTWISE_MUL, dscores, scale);
  make.add_up(make.view_as_shorts(dscores, turned_scores), queries, of_heads, make.heads(id_dkeys, make.keys_view()));

  const Tensor straight_keys = make.floats(make.keys_view());
  make.graph().view(keys, straight_keys);
  const Tensor dqueries = make.heads(id_dqueries, make.queries_view());
  if (is_deterministic) {
    make.graph().multiply(dscores, straight_keys, dqueries);
  } else {
    const Tensor sum = make.graph().memory(id_dqueries_sum, CUDNN_DATA_FLOAT, of_heads);
    make.graph().multiply(dscores, straight_keys, sum);
    make.graph().apply(CUDNN_POINTWISE_IDENTITY, sum, nullptr, dqueries);
  }
  return std::move(make.graph());
}
}  // namespace

DnnView heads_view(const AttentionExtents& of, std::int64_t row_heads, std::int64_t heads) {
  return {{of.samples, heads, of.places, of.width},
          {of.places * row_heads * of.width, of.width, row_heads * of.width, 1}};
}

PackedHeads packed_heads(const AttentionExtents& of, const void* x) {
  constexpr std::int64_t kBytes = 2;
  const char* const start = static_cast<const char*>(x);
  return {x, start + kBytes * of.heads * of.width, start + kBytes * (of.heads + of.kv_heads) * of.width};
}

AttentionPlans::AttentionPlans(const AttentionExtents& of, tensor::DataType type, const DnnTarget& target,
                               const DnnLimits& limits)
    : of_(of), is_deterministic_(limits.is_deterministic) {
  // Up to 9.15.0 backward is wrong where the places are no multiple of 128.
  if (cudnnGetVersion() <= 91500) throw DnnRefusal("cuDNN is older than 9.15.1");
  if (of.places < 2) throw DnnRefusal("cuDNN does not support sequences of one token");
  forward_ = forward_graph(of, type).plan(target, limits);
  backward_ = backward_graph(of, type, is_deterministic_).plan(target, limits);
}

std::size_t AttentionPlans::workspace_bytes() const {
  return std::max(forward_.workspace_bytes(), backward_.workspace_bytes());
}

void AttentionPlans::run(cudnnHandle_t dnn, const AttentionForward& arrays, void* workspace) const {
  const PackedHeads x = packed_heads(of_, arrays.x);
  forward_.run(dnn,
               {{id_queries, x.queries},
                {id_keys, x.keys},
                {id_values, x.values},
                {id_y, arrays.y},
                {id_logarithms, arrays.logarithms}},
               workspace);
}

void AttentionPlans::run(cudnnHandle_t dnn, const AttentionBackward& arrays, void* workspace) const {
  const PackedHeads x = packed_heads(of_, arrays.x), dx = packed_heads(of_, arrays.dx);
  std::vector<DnnPlan::Binding> memory{{id_queries, x.queries},  {id_keys, x.keys},
                                       {id_values, x.values},    {id_y, arrays.y},
                                       {id_dy, arrays.dy},       {id_logarithms, arrays.logarithms},
                                       {id_means, arrays.means}, {id_dqueries, dx.queries},
                                       {id_dkeys, dx.keys},      {id_dvalues, dx.values}};
  if (!is_deterministic_) memory.push_back({id_dqueries_sum, arrays.dqueries_sum});
  backward_.run(dnn, memory, workspace);
}

}  // namespace distdl::kernels::cuda
