// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::kernels::cuda {

/// The GPU for place `wanted`, counted modulo the GPUs that this process can see. Throws BackendUnavailable with CUDA's
/// reason if there is none that can run this program: no driver, driver too old, no GPU, GPU unknown to the compiled
/// kernels.
int choose_gpu(std::int64_t wanted);

/// "13.0" for 13000
std::string cuda_version(int number);

}  // namespace distdl::kernels::cuda
