// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::kernels::onednn {

/// Whether the processor multiplies bfloat16. oneDNN takes it from AVX512 on, but then by way of floats.
bool has_bfloat16();

/// Whether it does so clearly faster than floats: by AMX, or by AVX512-BF16, which on some processors is four times as
/// fast for the same arithmetic as on others. The latter is measured, once and for a millisecond.
bool has_fast_bfloat16();

}  // namespace distdl::kernels::onednn
