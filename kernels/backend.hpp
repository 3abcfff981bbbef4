// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/kernels/layer_spec.hpp>
#include <distdl/kernels/optimizer_steps.hpp>
#include <distdl/kernels/rng_key.hpp>
#include <distdl/tensor/accelerator.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::kernels {

struct Options;  // declared only: options.hpp formats texts, which nvcc does not compile

/// The format of an activation between two layers: its logical shape, its bytes, the backend's own layout of the
/// elements (nullptr: dense row-major), and their type. Only the backend reads `layout`.
struct ActivationFormat {
  tensor::Shape shape;
  std::size_t bytes = 0;
  std::shared_ptr<const void> layout;
  tensor::DataType type = tensor::DataType::float32;  ///< or bfloat16, float16; int32 for numbers, see Embedding

  std::size_t elements() const { return bytes / tensor::size_of(type); }  ///< including the padding of blocks
};
/// The dense row-major format.
ActivationFormat dense(const tensor::Shape& shape, tensor::DataType type = tensor::DataType::float32);

enum class Phase { training, evaluation };

/// One pointer per tensor of a layer. For statistics, training writes the observed values to the gradients' memory, see
/// tensor::Role.
using Pointers = std::span<float* const>;
using ConstPointers = std::span<const float* const>;
using ArenaRanges = std::span<const ArenaRange>;

/// The part of the next layer's work that a layer takes over.
enum class Fusion {
  none,
  forward,  ///< forward also computes the output of the next layer
  whole,    ///< as forward; backward also takes dy of that output
};

/// A layer that is bound to a backend and to the shape of its input. It owns primitives, workspaces and the values that
/// backward needs from forward. All pointers are to the backend's memory. Activations have the formats of `input` (at
/// creation) and output(). Parameters and gradients are dense row-major floats, with one pointer per entry of
/// parameters_of().
class Layer {
 public:
  virtual ~Layer() = default;
  virtual const ActivationFormat& output() const = 0;
  /// Called after each change of the parameters, before forward. Backends with a repacked copy update it here.
  virtual void load_parameters(ConstPointers parameters) = 0;
  /// `other`, of the same spec and input format, has the same parameters, and its load_parameters() is called before
  /// this one's: repacked copies need not be made twice. It must outlive this layer's use.
  virtual void share_parameters(const Layer& /*other*/) {}
  /// x and y are different memory unless works_in_place(). Both must stay unchanged until backward.
  virtual void forward(const void* x, void* y, Phase phase) = 0;
  /// Computes dx (in the format of the input) from dy (in the format of the output). x and y are those of the last
  /// training forward. After a forward, backward_input and backward_weights are each called once, in any order and with
  /// the same dy.
  virtual void backward_input(const void* x, const void* y, const void* dy, void* dx) = 0;
  /// Overwrites (does not add to) the gradients of this microbatch; for statistics, writes the observed values.
  virtual void backward_weights(const void* x, const void* dy, Pointers gradients) = 0;
  /// Whether y may be x, and dx may be dy. Backward does not read x then.
  virtual bool works_in_place() const { return false; }
  /// If false, a later layer may overwrite y before backward.
  virtual bool backward_reads_output() const { return true; }
  /// Bytes of what backward needs from forward beside x and y, if the caller may give the memory for it.
  virtual std::size_t workspace() const { return 0; }
  /// Gives the layer memory of workspace() bytes, before the first forward. It must stay unchanged between a training
  /// forward and the backward after it. A layer that is given none takes its own.
  virtual void use_workspace(void* /*memory*/) {}

  /// Takes over as much work of `next` as possible. `next` must be the only reader of the output. Called at most once,
  /// before all other functions. `in_place`: both outputs share one memory, which will contain that of `next`;
  /// otherwise both outputs are needed.
  virtual Fusion fuse(const LayerSpec& /*next*/, bool /*in_place*/) { return Fusion::none; }
  /// Called instead of forward() if fuse() took over work. It also writes the output of `next`.
  virtual void forward_fused(const void* /*x*/, void* /*y*/, void* /*next_y*/, Phase /*phase*/) {}
};

/// A layer whose activations all have the type T.
template <class T>
class LayerOf : public Layer {
 public:
  void forward(const void* x, void* y, Phase phase) final {
    forward(static_cast<const T*>(x), static_cast<T*>(y), phase);
  }
  void backward_input(const void* x, const void* y, const void* dy, void* dx) final {
    backward_input(static_cast<const T*>(x), static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx));
  }
  void backward_weights(const void* x, const void* dy, Pointers gradients) final {
    backward_weights(static_cast<const T*>(x), static_cast<const T*>(dy), gradients);
  }
  virtual void forward(const T* x, T* y, Phase phase) = 0;
  virtual void backward_input(const T* x, const T* y, const T* dy, T* dx) = 0;
  virtual void backward_weights(const T* x, const T* dy, Pointers gradients) = 0;
};
using FloatLayer = LayerOf<float>;

/// A LossSpec that is bound to a backend and to predictions of one shape.
class Loss {
 public:
  virtual ~Loss() = default;
  /// Overwrites `totals`: totals[0] = sum of the losses; totals[1] = number of rows whose largest logit is the target's
  /// (the first of equal ones counts; 0 for other losses); totals[2] = number of losses in the sum, without ignored
  /// ones. `gradient` becomes the gradient of scale * totals[0] with respect to the predictions, unless it is nullptr.
  /// It has the format of the predictions. For targets see LossSpec. All pointers are to the backend's memory.
  virtual void forward_backward(const void* predictions, const void* targets, float scale, void* gradient,
                                float* totals) = 0;
};

/// The cross-entropy of rows of logits that lie apart, in slices of the classes. Each slice summarizes its part of each
/// row. The caller brings the summaries of all slices together.
class SlicedLoss {
 public:
  virtual ~SlicedLoss() = default;
  /// Floats of the summary of one slice. The caller copies so many.
  virtual std::size_t summary_count() const = 0;
  /// For `logits` of the own classes and the targets of LossSpec.
  virtual void summarize(const void* logits, const void* targets, float* summary) = 0;
  /// As Loss::forward_backward(): the totals are those of whole rows, `gradient` is that of the own logits. `summaries`
  /// are those of all slices, one after the other; each slice combines them in the same order.
  virtual void forward_backward(const void* logits, const void* targets, const float* summaries, float scale,
                                void* gradient, float* totals) = 0;
};

/// Work that a backend repeats on the same memory and may record.
class Replay {
 public:
  virtual ~Replay() = default;
  /// Does the work by calling work() or by replaying a record of an earlier call. work() must therefore do the same
  /// work each time; only values in memory and the RNG key may change. From the second run on, this neither waits for
  /// the backend nor allocates.
  virtual void run(const std::function<void()>& work) = 0;
  /// The reason why the work could not be recorded. Each run then calls work().
  virtual std::optional<std::string> obstacle() const = 0;
};

/// An implementation of all layers on one device. Not thread-safe; each rank has one.
class Backend {
 public:
  virtual ~Backend() = default;
  /// The name: "reference", "onednn" or "cuda".
  virtual std::string name() const = 0;
  /// Library version and instruction set or device, which determine the bits of a result. Recorded in checkpoints.
  virtual std::string description() const = 0;
  /// The type of activations and their gradients, from Options::precision.
  virtual tensor::DataType activation_type() const = 0;

  /// Zeroed memory of the backend, aligned to 64 bytes or more.
  virtual tensor::Buffer allocate(std::size_t bytes) = 0;
  /// Zeroed host memory for fast copies (pinned if the backend has a GPU).
  virtual tensor::Buffer allocate_staging(std::size_t bytes) = 0;
  /// Whether the host can address the memory of allocate(). Messages and files then need no copies.
  virtual bool memory_is_host() const = 0;
  /// Addresses for so many bytes, which take memory only where they are committed, or, on a host, written. On a host
  /// any thread may call commit() and discard().
  virtual tensor::Buffer reserve(std::size_t bytes) = 0;
  /// Makes a part of the memory of a reserve() usable. What was not usable is zero.
  virtual void commit(std::span<std::byte> memory) = 0;
  /// Waits for the backend, and gives the whole pages within a part of such memory back. On a device they must not be
  /// used until they are committed again. A page at a border, which is 2 MiB on a GPU, stays.
  virtual void discard(std::span<std::byte> memory) = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;  ///< returns when the copy is complete

  virtual void fill(float* data, std::size_t count, float value) = 0;
  /// Sets bytes to 0.
  virtual void clear(void* data, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// accumulate += addend
  virtual void add(float* accumulate, const float* addend, std::size_t count) = 0;
  /// Adds activations of one format.
  virtual void add(const ActivationFormat& format, void* accumulate, const void* addend) = 0;
  /// Sets addends[0], of one or more activations of one format, to their sum along the tree of comm/sum_tree.hpp: the
  /// bits are those of its additions with add(). May change the other addends.
  virtual void sum(const ActivationFormat& format, std::span<void* const> addends);
  /// Converts element by element between floats, bfloat16 and float16.
  virtual void convert(tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
                       std::size_t count) = 0;

  /// The step of an optimizer over disjoint arena ranges, as one operation.
  virtual void update(const OptimizerStep& step, const UpdateArenas& arenas, ArenaRanges ranges) = 0;
  /// Sets sums[i] (in the backend's memory) to the sum of the squares in range i, computed in double and in the order
  /// of elementwise/ordered_sum.hpp.
  virtual void sums_of_squares(const float* data, ArenaRanges ranges, double* sums) = 0;
  /// Sets sums[i], as sums_of_squares() does, to the sum of known_term() over the elements of range i, with the options
  /// of the range. Changes no arena.
  virtual void sums_of_terms(const AdaptiveStep& step, const UpdateArenas& arenas, ArenaRanges ranges,
                             double* sums) = 0;

  /// Returns nullptr if this backend gains nothing from replays.
  virtual std::unique_ptr<Replay> make_replay() { return nullptr; }

  /// The accelerator for collectives on the backend's memory. Returns nullptr if memory_is_host().
  virtual std::shared_ptr<tensor::Accelerator> accelerator() { return nullptr; }

  /// Converts between an activation in its own format and dense row-major floats of the same shape, both in the
  /// backend's memory. The default implementations are for backends whose activations are all dense.
  virtual void to_dense(const ActivationFormat& format, const void* from, float* to);
  virtual void from_dense(const ActivationFormat& format, const float* from, void* to);

  /// Whether values of both formats can be added element by element. By default this is true if both are dense.
  virtual bool same_layout(const ActivationFormat& one, const ActivationFormat& other) const;

  /// The output has the type activation_type(). The input has it too, unless it is numbers.
  virtual std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) = 0;
  virtual std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) = 0;
  /// The loss of a slice of the classes, of which `logits` are. Throws ConfigError where the backend has none.
  virtual std::unique_ptr<SlicedLoss> sliced_loss(const CrossEntropy& spec, const ActivationFormat& logits,
                                                  const ClassSlice& slice);

  /// Sets the key for the following forward and backward passes.
  virtual void set_rng_key(const RngKey& rng_key) = 0;
};

/// Names of the backends that were built into this program, best first.
std::vector<std::string> built_backends();
/// The type of activations for Options::precision.
tensor::DataType activation_type(const Options& options);
/// "auto" chooses the best available backend. Throws ConfigError if the backend is unknown. Throws BackendUnavailable
/// (see unavailable.hpp) with a remedy if it was not built or cannot run here, for instance without a GPU.
std::unique_ptr<Backend> make_backend(const Options& options);
/// The best one whose memory is that of the host: the backend of the options, where it is one.
std::unique_ptr<Backend> make_host_backend(Options options);

}  // namespace distdl::kernels
