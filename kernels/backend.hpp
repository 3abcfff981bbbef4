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

struct Options;  // options.hpp formats texts, which nvcc does not compile

/// The format of an activation between two layers: logical shape, bytes, the backend's own layout of the elements
/// (nullptr: dense row-major), and their type. Only the backend reads `layout`.
struct ActivationFormat {
  tensor::Shape shape;
  std::size_t bytes = 0;
  std::shared_ptr<const void> layout;
  tensor::DataType type = tensor::DataType::float32;  ///< or bfloat16, float16; int32: numbers, see Embedding

  std::size_t elements() const { return bytes / tensor::size_of(type); }  ///< with what fills up blocks
};
/// Dense row-major.
ActivationFormat dense(const tensor::Shape& shape, tensor::DataType type = tensor::DataType::float32);

enum class Phase { training, evaluation };

/// Training updates the statistics' gradient slots; see tensor::Role.
using Pointers = std::span<float* const>;
using ConstPointers = std::span<const float* const>;
using ArenaRanges = std::span<const ArenaRange>;

/// How much of the next layer a layer computes.
enum class Fusion {
  none,
  forward,  ///< computes that one's output too
  whole,    ///< and in backward takes dy from it: the gradient of that output
};

/// One layer bound to a backend and to the shape of its input: primitives, workspaces and what backward needs of
/// forward. All pointers are to the backend's memory. Activations are in the formats that `input` (at creation) and
/// output() describe; parameters and gradients are dense row-major floats, one pointer per parameters_of() entry.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual const ActivationFormat& output() const = 0;
  /// Called after each change of the parameters, before forward: backends that keep a repacked copy renew it here.
  virtual void load_parameters(ConstPointers parameters) = 0;
  /// x and y are different memory, unless works_in_place(), and must stay unchanged until backward.
  virtual void forward(const void* x, void* y, Phase phase) = 0;
  /// dx (format of the input) from dy (format of the output). x and y as in the last training forward, after which both
  /// ways backward come once, in any order and with the same dy.
  virtual void backward_input(const void* x, const void* y, const void* dy, void* dx) = 0;
  /// Writes (does not add) the gradients of this microbatch; for statistics, the observed values.
  virtual void backward_weights(const void* x, const void* dy, Pointers gradients) = 0;
  /// y may be x, and dx dy: backward never looks at x.
  virtual bool works_in_place() const { return false; }
  /// Else what comes after it may overwrite y before backward.
  virtual bool backward_reads_output() const { return true; }

  /// Takes `next` over as far as it can, which alone reads its output. Once, before anything else. `in_place`: the two
  /// outputs are one memory, which will hold that of `next`; else both are wanted.
  virtual Fusion fuse(const LayerSpec& /*next*/, bool /*in_place*/) { return Fusion::none; }
  /// Instead of forward(), if fuse() took something: writes the output of `next` too.
  virtual void forward_fused(const void* /*x*/, void* /*y*/, void* /*next_y*/, Phase /*phase*/) {}
};

/// A layer whose activations are all of type T.
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

/// A LossSpec bound to a backend and to predictions of one shape.
class Loss {
 public:
  virtual ~Loss() = default;
  /// Adds nothing, writes: totals[0] = sum of the losses, totals[1] = number of rows whose largest logit is the
  /// target's (the first of equal ones counts; 0 for other losses), totals[2] = losses in the sum: those that were not
  /// ignored. gradient = that of scale * totals[0] to the predictions, or not written if nullptr; both in the format of
  /// the predictions. targets: see LossSpec. All pointers are to the backend's memory.
  virtual void forward_backward(const void* predictions, const void* targets, float scale, void* gradient,
                                float* totals) = 0;
};

/// Work that a backend repeats on the same memory and may record.
class Replay {
 public:
  virtual ~Replay() = default;
  /// Does the work, by calling work() or by replaying a record of an earlier call. work() must therefore give the
  /// backend the same work each time; only values in memory and the RNG key may change. From the second run on this
  /// neither waits for the backend nor allocates.
  virtual void run(const std::function<void()>& work) = 0;
  /// Why the work could not be recorded, if that is so; each run then calls work().
  virtual std::optional<std::string> obstacle() const = 0;
};

/// One implementation of all layers on one device. Not thread-safe; one per rank.
class Backend {
 public:
  virtual ~Backend() = default;
  /// "reference", "onednn", "cuda"
  virtual std::string name() const = 0;
  /// Library version and instruction set or device: what decides the bits of a result. Recorded in checkpoints.
  virtual std::string description() const = 0;
  /// Of activations and their gradients: Options::precision.
  virtual tensor::DataType activation_type() const = 0;

  /// Zeroed memory of the backend, aligned to 64 bytes or more.
  virtual tensor::Buffer allocate(std::size_t bytes) = 0;
  /// Zeroed host memory from which copies are fast (pinned where that means something).
  virtual tensor::Buffer allocate_staging(std::size_t bytes) = 0;
  /// Whether allocate() returns memory that the host can address: then no copies to the wire or to files are needed.
  virtual bool memory_is_host() const = 0;
  virtual void copy_from_host(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, std::size_t bytes) = 0;  ///< returns when the bytes are there

  virtual void fill(float* data, std::size_t count, float value) = 0;
  /// Sets bytes to 0.
  virtual void clear(void* data, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// accumulate += addend
  virtual void add(float* accumulate, const float* addend, std::size_t count) = 0;
  /// The same for activations of one format.
  virtual void add(const ActivationFormat& format, void* accumulate, const void* addend) = 0;
  /// Elements one by one; floats, bfloat16 or float16.
  virtual void convert(tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
                       std::size_t count) = 0;

  /// The step of an optimizer over arena ranges, as one piece of work. The ranges are disjoint.
  virtual void update(const OptimizerStep& step, const UpdateArenas& arenas, ArenaRanges ranges) = 0;
  /// sums[i] (backend memory) = sum of the squares in range i, in double and in the order of
  /// elementwise/ordered_sum.hpp.
  virtual void sums_of_squares(const float* data, ArenaRanges ranges, double* sums) = 0;

  /// nullptr: this backend would gain nothing.
  virtual std::unique_ptr<Replay> make_replay() { return nullptr; }

  /// For collectives on the backend's memory; nullptr where memory_is_host().
  virtual std::shared_ptr<tensor::Accelerator> accelerator() { return nullptr; }

  /// Between an activation in its own format and dense row-major floats of the same shape, both in the backend's
  /// memory. As they stand, they serve backends whose activations are all dense.
  virtual void to_dense(const ActivationFormat& format, const void* from, float* to);
  virtual void from_dense(const ActivationFormat& format, const float* from, void* to);

  /// May values in one format be added to those in the other, place by place? As it stands: where both are dense.
  virtual bool same_layout(const ActivationFormat& one, const ActivationFormat& other) const;

  /// The output is of activation_type(), as the input is where it is not numbers.
  virtual std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) = 0;
  virtual std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) = 0;

  /// For the forward and backward passes that follow.
  virtual void set_rng_key(const RngKey& rng_key) = 0;
};

/// Names of the backends built into this program, best first.
std::vector<std::string> built_backends();
/// Of Options::precision.
tensor::DataType activation_type(const Options& options);
/// "auto" takes the best one that is available. Throws ConfigError if the backend is unknown, BackendUnavailable (see
/// unavailable.hpp) if it was not built in or cannot run here (no GPU), and says how to get it.
std::unique_ptr<Backend> make_backend(const Options& options);

}  // namespace distdl::kernels
