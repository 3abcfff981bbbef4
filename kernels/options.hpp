// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::kernels {

/// Precision of activations and products.
enum class Precision { fp32, bf16, fp16, tf32 };
constexpr std::array<Named<Precision>, 4> choices_of(Precision) {
  return {{
      {Precision::fp32, "fp32", ""},
      {Precision::bf16, "bf16", "activations of 16 bits, parameters and sums of 32"},
      {Precision::fp16, "fp16", "the same, with more precision and less range"},
      {Precision::tf32, "tf32", "the GPU's products of reduced precision"},
  }};
}

struct Options {
  std::string backend = "auto";  ///< reference, onednn or cuda; auto chooses the best that works here
  OneOf<Precision> precision = Precision::fp32;
  std::int64_t threads = 1;   ///< per rank, or per device of a rank; one rank per core with one thread is fastest
  bool replay = true;         ///< cuda: record the work of a step once and replay it (CUDA graphs)
  bool deterministic = true;  ///< cuda: use the same bits in every run; else cuDNN chooses the fastest algorithms
  /// The GPU, modulo the number of GPUs that this process can see. -1: the rank's place on its node (SLURM_LOCALID,
  /// else 0). This is not a key of the job file, because it differs from rank to rank.
  std::int64_t device = -1;
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("kernels.backend", options.backend,
        R"(where layers run: "reference", "onednn", "cuda"; "auto" chooses the best that works here)");
  visit("kernels.precision", options.precision, OneOf<Precision>::help("precision"));
  visit("kernels.threads", options.threads,
        "CPU threads per rank, or per device of a rank; one rank per core with one thread each is fastest");
  visit("kernels.replay", options.replay,
        "on a GPU, record a step once and replay it (CUDA graphs): the same bits in less time");
  visit("kernels.deterministic", options.deterministic,
        "on a GPU, use only algorithms that give the same bits in every run; false: use those that cuDNN estimates to "
        "be the fastest");
}

}  // namespace distdl::kernels
