// SPDX-License-Identifier: Apache-2.0
#include <distdl/compression/loops/codec_loops.hpp>

namespace distdl::compression {

struct Avx2Processor;
constexpr Loops kAvx2 = CodecLoops<Avx2Processor>::all();

}  // namespace distdl::compression
