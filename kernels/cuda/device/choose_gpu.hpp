// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::kernels::cuda {

/// The GPU for index `wanted`, modulo the number of GPUs that this process can see. Throws BackendUnavailable with
/// CUDA's reason if no GPU can run this program: no driver, an old driver, no GPU, or a GPU without compiled kernels.
int choose_gpu(std::int64_t wanted);

/// Returns "13.0" for 13000.
std::string cuda_version(int number);

}  // namespace distdl::kernels::cuda
