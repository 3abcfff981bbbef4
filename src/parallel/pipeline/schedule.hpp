// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel::pipeline {

/// How the ranks of a pipeline order their work on the microbatches of a step. All end with a flush: a step is over
/// when each microbatch has passed each stage forward and backward.
enum class Algorithm {
  gpipe,        ///< all forward, then all backward (Huang et al., "GPipe", NeurIPS 2019)
  one_f_one_b,  ///< as early backward as possible (PipeDream-Flush: Narayanan et al., ICML 2021)
  interleaved,  ///< 1F1B with several stages per rank (Narayanan et al., "Megatron-LM", SC 2021)
  zero_bubble   ///< ZB-H1: gradients of weights fill the gaps (Qi et al., "Zero Bubble Pipeline Parallelism", 2023)
};

inline constexpr std::array<Named<Algorithm>, 4> kAlgorithms{{
    {Algorithm::gpipe, "gpipe", "all forward, then all backward"},
    {Algorithm::one_f_one_b, "1f1b", "one forward, one backward: fewer activations"},
    {Algorithm::interleaved, "interleaved", "1f1b with several stages per rank: a shorter bubble, more transfers"},
    {Algorithm::zero_bubble, "zero-bubble", "1f1b with gradients of weights in the gaps"},
}};
constexpr const auto& choices_of(Algorithm /*which*/) {
  return kAlgorithms;
}

/// Stage s lies on rank s % ranks.
struct Shape {
  int ranks = 1, microbatches = 1;
  int interleave = 1;  ///< stages per rank
  int stages() const { return ranks * interleave; }
};

enum class Kind : std::uint8_t {
  forward,
  backward,         ///< both of the following
  backward_input,   ///< the gradient of the stage's input, for the stage before
  backward_weight,  ///< the gradient of the stage's weights, which no other operation waits for
};

/// Work of a rank. First it waits for its input, if another rank has that; at its end it sends the result.
struct Operation {
  static constexpr int kNobody = -1;
  Kind kind = Kind::forward;
  int stage = 0, microbatch = 0;
  int receive_from = kNobody, send_to = kNobody;  ///< ranks; activations if forward, else gradients

  bool is_forward() const { return kind == Kind::forward; }
};

/// "forward of microbatch 3 in stage 1"
std::string text_of(const Operation& operation);

/// A step as plain data. Messages between two ranks form two channels for each direction, one for activations and one
/// for gradients, and are received in the order in which they were sent.
struct Schedule {
  Algorithm algorithm = Algorithm::gpipe;
  Shape shape;
  std::vector<std::vector<Operation>> operations;  ///< per rank, in their order
  std::vector<int>
      most_activations;  ///< per rank: never more (microbatch, stage) pairs between forward and last backward
  int buffers = 1;       ///< messages of a channel that may be sent before they are received; the next send waits
};

/// The schedule for any number of microbatches. Each stage adds its gradients in ascending order of the microbatches,
/// as GradientSum::add() takes them along the fixed tree; any other order would give the same bits, in more memory.
/// Throws ConfigError for numbers below 1, and for several stages per rank where the algorithm has one.
Schedule make_schedule(OneOf<Algorithm> algorithm, const Shape& shape);

}  // namespace distdl::parallel::pipeline
