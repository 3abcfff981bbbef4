// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/parallel/options.hpp>

namespace distdl::parallel::pipeline {

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
