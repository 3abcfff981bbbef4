// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/primitives/dnn_graph.hpp>

// Before 9.8 cuDNN cannot plan for a GPU that is not there.
#define DISTDL_CUDNN_DESCRIBES_GPUS (CUDNN_VERSION >= 90800)

namespace distdl::kernels::cuda {
namespace {
constexpr std::int64_t kFirstNumber = 100, kFirstWithin = 200;  // ids
constexpr std::int64_t kAlignment = 16;                         // bytes, of all memory

template <class T>
constexpr cudnnBackendAttributeType_t kAttributeType = CUDNN_TYPE_BACKEND_DESCRIPTOR;
template <>
constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
constexpr auto kAttributeType<char> = CUDNN_TYPE_CHAR;
template <>
constexpr auto kAttributeType<std::int64_t> = CUDNN_TYPE_INT64;
template <>
constexpr auto kAttributeType<float> = CUDNN_TYPE_FLOAT;
template <>
constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
constexpr auto kAttributeType<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
constexpr auto kAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
constexpr auto kAttributeType<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;

std::string last_error() {
  std::array<char, 512> details{};
  cudnnGetLastErrorString(details.data(), details.size());
  return details.data();
}

/// Throws DnnRefusal if cuDNN refuses a graph, unless it is short of memory.
void require_taken(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  if (code == CUDNN_STATUS_ALLOC_FAILED) check(code, what);
  throw DnnRefusal(std::string("cuDNN cannot ") + what + " (" + cudnnGetErrorString(code) + " " + last_error() + ")");
}

DnnDescriptor create(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t created = nullptr;
  require_taken(cudnnBackendCreateDescriptor(type, &created), "create a descriptor");
  return DnnDescriptor(created);
}
template <class T>
void set(const DnnDescriptor& descriptor, cudnnBackendAttributeName_t name, const T* values, std::size_t count) {
  require_taken(
      cudnnBackendSetAttribute(descriptor.get(), name, kAttributeType<T>, static_cast<std::int64_t>(count), values),
      "describe an operation");
}
template <class T>
void set(const DnnDescriptor& descriptor, cudnnBackendAttributeName_t name, const T& value) {
  set(descriptor, name, &value, 1);
}
void finalize(const DnnDescriptor& descriptor, const char* what) {
  require_taken(cudnnBackendFinalize(descriptor.get()), what);
}

/// The heuristic's configurations, best first.
std::vector<DnnDescriptor> configurations(const DnnDescriptor& graph, const DnnTarget& target,
                                          cudnnBackendHeurMode_t mode) {
  const DnnDescriptor heuristic = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, mode);
#if DISTDL_CUDNN_DESCRIBES_GPUS
  if (target.description != nullptr) set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.description);
#endif
  finalize(heuristic, "choose an engine");
  std::int64_t count = 0;
  require_taken(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                         0, &count, nullptr),
                "count its engines");
  std::vector<DnnDescriptor> found;
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (std::int64_t i = 0; i < count; ++i)
    pointers.push_back(found.emplace_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).get());
  require_taken(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                         count, &count, pointers.data()),
                "list its engines");
  found.resize(static_cast<std::size_t>(count));
  return found;
}

struct EngineNotes {
  bool is_deterministic, uses_tensor_cores;
  bool is_exact;  ///< takes the operands as they are, and sums products in fp32
};
EngineNotes notes_of(const DnnDescriptor& configuration) {
  const DnnDescriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t pointer = engine.get();
  std::int64_t count = 0;
  require_taken(cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &pointer),
                "get an engine");
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  require_taken(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                         notes.size(), &count, notes.data()),
                "get an engine's notes");
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
  };
  const auto has_any = [&](auto... some) { return (has(some) || ...); };
  return {!has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC), has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
          !has_any(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                   CUDNN_NUMERICAL_NOTE_FFT, CUDNN_NUMERICAL_NOTE_WINOGRAD)};
}
}  // namespace

void close_descriptor(cudnnBackendDescriptor_t descriptor) noexcept {
  (void)cudnnBackendDestroyDescriptor(descriptor);
}

#if DISTDL_CUDNN_DESCRIBES_GPUS
DnnDescriptor describe_gpu(const std::string& json) {
  DnnDescriptor description = create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set(description, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json.data(), json.size());
  finalize(description, "read the description of a GPU");
  return description;
}
#endif

DnnView channels_last_view(const DnnView::Four& extents) {
  const auto [n, channels, height, width] = extents;
  return {extents, {height * width * channels, 1, width * channels, channels}};
}

DnnView dense_view(const DnnView::Four& extents) {
  DnnView view{extents, {}};
  std::int64_t stride = 1;
  for (std::size_t axis = 4; axis-- > 0; stride *= extents[axis]) view.strides[axis] = stride;
  return view;
}

void DnnPlan::run(cudnnHandle_t dnn, const std::vector<Binding>& memory, void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<const void*> data;
  for (const Binding& binding : memory) {
    ids.push_back(binding.id);
    data.push_back(binding.data);
  }
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    ids.push_back(kFirstNumber + static_cast<std::int64_t>(i));
    data.push_back(&numbers_[i]);
  }
  cudnnBackendDescriptor_t created = nullptr;
  check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &created), "list the tensors of a graph");
  const DnnDescriptor pack(created);
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count,
                       const void* values) {
    check(cudnnBackendSetAttribute(pack.get(), name, type, static_cast<std::int64_t>(count), values),
          "list the tensors of a graph");
  };
  set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(), ids.data());
  set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.size(), data.data());
  set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  check(cudnnBackendFinalize(pack.get()), "list the tensors of a graph");
  check(cudnnBackendExecute(dnn, plan_.get(), pack.get()), "run a graph of operations");
}

DnnGraph::Tensor DnnGraph::tensor(std::int64_t id, cudnnDataType_t type, const DnnView& view, bool is_within,
                                  bool is_number) {
  DnnDescriptor made = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, view.extents.data(), view.extents.size());
  set(made, CUDNN_ATTR_TENSOR_STRIDES, view.strides.data(), view.strides.size());
  set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_within);
  set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, is_number);
  finalize(made, "describe a tensor");
  return tensors_.emplace_back(std::move(made)).get();
}

DnnGraph::Tensor DnnGraph::memory(std::int64_t id, cudnnDataType_t type, const DnnView& view) {
  return tensor(id, type, view, false, false);
}
DnnGraph::Tensor DnnGraph::within(cudnnDataType_t type, const DnnView& view) {
  return tensor(kFirstWithin + static_cast<std::int64_t>(tensors_.size()), type, view, true, false);
}
DnnGraph::Tensor DnnGraph::number(float value) {
  numbers_.push_back(value);
  return tensor(kFirstNumber + static_cast<std::int64_t>(numbers_.size()) - 1, CUDNN_DATA_FLOAT,
                dense_view({1, 1, 1, 1}), false, true);
}

void DnnGraph::add(DnnDescriptor how, DnnDescriptor operation) {
  finalize(operation, "accept an operation");
  hows_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void DnnGraph::multiply(Tensor a, Tensor b, Tensor c) {
  DnnDescriptor how = create(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  finalize(how, "describe a product");
  DnnDescriptor operation = create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how.get());
  add(std::move(how), std::move(operation));
}

void DnnGraph::convolve(const DnnConvolution& spec, const ConvolutionNames& names, Tensor x, Tensor w, Tensor y) {
  constexpr std::int64_t kAxes = 2;
  const auto both = [](std::int64_t value) { return std::array{value, value}; };
  DnnDescriptor how = create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  set(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  set(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, kAxes);
  set(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, both(spec.padding).data(), kAxes);
  set(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, both(spec.padding).data(), kAxes);
  set(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, both(spec.stride).data(), kAxes);
  set(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, both(spec.dilation).data(), kAxes);
  finalize(how, "describe a convolution");
  DnnDescriptor operation = create(names.operation);
  set(operation, names.x, x);
  set(operation, names.w, w);
  set(operation, names.y, y);
  set(operation, names.how, how.get());
  set(operation, names.alpha, 1.0F);
  set(operation, names.beta, 0.0F);
  add(std::move(how), std::move(operation));
}

void DnnGraph::convolve(const DnnConvolution& spec, Tensor x, Tensor w, Tensor y) {
  convolve(spec,
           {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
           x, w, y);
}
void DnnGraph::convolve_to_input(const DnnConvolution& spec, Tensor dx, Tensor w, Tensor dy) {
  convolve(spec,
           {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
           dx, w, dy);
}
void DnnGraph::convolve_to_weights(const DnnConvolution& spec, Tensor x, Tensor dw, Tensor dy) {
  convolve(spec,
           {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
           x, dw, dy);
}

void DnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t math, std::optional<std::int64_t> axis,
                         const Operands& operands) {
  DnnDescriptor how = create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, math);
  if (axis) set(how, CUDNN_ATTR_POINTWISE_AXIS, *axis);
  finalize(how, "describe an element-wise operation");
  DnnDescriptor operation = create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get());
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, operands.x);
  if (operands.b != nullptr) set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operands.b);
  if (operands.choice != nullptr) set(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, operands.choice);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, operands.y);
  add(std::move(how), std::move(operation));
}

void DnnGraph::apply(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y, Tensor choice) {
  pointwise(mode, CUDNN_DATA_FLOAT, std::nullopt, {x, b, y, choice});
}
void DnnGraph::compare(Tensor a, Tensor b, Tensor y) {
  pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, std::nullopt, {a, b, y, nullptr});
}
void DnnGraph::index(std::int64_t axis, Tensor x, Tensor y) {
  pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, {x, nullptr, y, nullptr});
}

void DnnGraph::reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor y) {
  DnnDescriptor how = create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, operation);
  finalize(how, "describe a reduction");
  DnnDescriptor made = create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how.get());
  set(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  set(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  add(std::move(how), std::move(made));
}

void DnnGraph::view(Tensor x, Tensor y) {
  DnnDescriptor operation = create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  add(DnnDescriptor(), std::move(operation));
}

DnnPlan DnnGraph::plan(const DnnDescriptor& configuration, const DnnTarget& target) const {
  DnnPlan made;
  made.plan_ = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle != nullptr) set(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
#if DISTDL_CUDNN_DESCRIBES_GPUS
  if (target.description != nullptr) set(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.description);
#endif
  set(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
  finalize(made.plan_, "plan a graph of operations");
  std::int64_t bytes = 0, count = 0;
  require_taken(cudnnBackendGetAttribute(made.plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                         1, &count, &bytes),
                "get a plan's workspace size");
  made.workspace_bytes_ = static_cast<std::size_t>(bytes);
  made.numbers_ = numbers_;
  return made;
}

DnnPlan DnnGraph::plan(const DnnTarget& target, const DnnLimits& limits) {
  const DnnDescriptor graph = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const DnnDescriptor& operation : operations_) operations.push_back(operation.get());
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operations.data(), operations.size());
  if (target.handle != nullptr) set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  finalize(graph, "accept a graph of operations");

  std::string problem = "cuDNN has no engine for a graph of operations (" + last_error() + ")";
  auto found = configurations(graph, target, CUDNN_HEUR_MODE_A);
  try {  // slow ones, which take what others do not
    for (auto& slow : configurations(graph, target, CUDNN_HEUR_MODE_FALLBACK)) found.push_back(std::move(slow));
  } catch (const DnnRefusal&) {  // there are none
  }
  for (const DnnDescriptor& configuration : found) {
    try {
      const EngineNotes notes = notes_of(configuration);
      if (!notes.is_exact || (limits.is_deterministic && !notes.is_deterministic)) continue;
      DnnPlan made = plan(configuration, target);
      made.uses_tensor_cores_ = notes.uses_tensor_cores;
      if (made.workspace_bytes_ <= limits.most_workspace) return made;
      problem =
          "cuDNN needs " + std::to_string(made.workspace_bytes_) + " bytes of workspace for a graph of operations";
    } catch (const DnnRefusal& refusal) {
      problem = refusal.what();
    }
  }
  throw DnnRefusal(problem);
}

}  // namespace distdl::kernels::cuda
