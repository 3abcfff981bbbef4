// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/layer_cases.hpp"

namespace distdl::kernels::test {
namespace {
Conv2d conv(std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t padding, bool bias = true) {
  return {.out = out, .kernel = kernel, .stride = stride, .padding = padding, .bias = bias};
}
}  // namespace

std::vector<LayerCase> small_layers() {
  return {
      {"Linear", {Linear{4}}, {3, 5}},
      {"LinearOfOneSample", {Linear{3}}, {1, 7}},
      {"LinearToOneOutput", {Linear{1}}, {4, 6}},
      {"LinearOfImages", {Linear{3}}, {2, 3, 4, 2}},
      {"Conv", {conv(3, 3, 1, 1)}, {2, 2, 5, 4}},
      {"ConvWithoutBias", {conv(2, 3, 1, 0, false)}, {2, 3, 4, 5}},
      {"ConvStride2", {conv(4, 3, 2, 1)}, {1, 2, 7, 6}},
      {"ConvKernel1", {conv(5, 1, 1, 0)}, {2, 4, 3, 3}},
      {"ConvKernel2Stride3", {conv(2, 2, 3, 1)}, {2, 1, 5, 8}},
      {"ConvToOnePixel", {conv(3, 4, 1, 0)}, {2, 2, 4, 4}},
      {"LinearOfSequences", {Linear{4}}, {2, 3, 5}},
      {"LinearWithoutBias", {Linear{.out = 4, .bias = false}}, {3, 5}},
      {"ConvDilated", {Conv2d{.out = 3, .kernel = 3, .padding = 2, .dilation = 2}}, {2, 2, 6, 7}},
      {"ConvGrouped", {Conv2d{.out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2}}, {2, 4, 5, 6}},
      {"ConvDepthwise", {Conv2d{.out = 4, .kernel = 3, .padding = 1, .bias = false, .groups = 4}}, {2, 4, 5, 4}},
      {"MaxPoolPadded", {MaxPool2d{3, 2, 1}}, {2, 3, 6, 5}},
      {"AveragePool", {AveragePool2d{2, 2}}, {2, 3, 5, 4}},
      {"AveragePoolOverlapping", {AveragePool2d{3, 1}}, {1, 2, 5, 4}},
      {"GlobalAveragePool", {GlobalAveragePool{}}, {2, 3, 4, 5}},
      {"Gelu", {Gelu{}}, {3, 11}},
      {"GeluTanh", {Gelu{.tanh = true}}, {3, 11}},
      {"Silu", {Silu{}}, {3, 11}},
      {"GatedSilu", {GatedSilu{}}, {2, 3, 6}},
      {"LayerNorm", {LayerNorm{}}, {4, 7}},
      {"LayerNormOfSequences", {LayerNorm{1e-3f}}, {2, 3, 20}},
      {"RmsNorm", {RmsNorm{}}, {2, 3, 9}},
      {"Dropout", {Dropout{.probability = 0.3f, .stream = 5}}, {3, 11}},
      {"PositionEmbedding", {PositionEmbedding{5}}, {2, 4, 3}},
      {"ClassToken", {ClassToken{}}, {2, 3, 4}},
      {"PixelsToSequence", {PixelsToSequence{}}, {2, 3, 2, 4}},
      {"Embedding", {Embedding{6, 3}}, {2, 4}},
      {"SelectPlace", {SelectPlace{1}}, {2, 3, 4}},
      {"AttentionCausal", {Attention{.heads = 2}}, {2, 4, 2 * 3 * 3}},
      {"Attention", {Attention{.heads = 2, .causal = false}}, {2, 4, 2 * 3 * 3}},
      {"AttentionOfGroups", {Attention{.heads = 4, .kv_heads = 2}}, {2, 3, (4 + 2 * 2) * 2}},
      {"AttentionRotary", {Attention{.heads = 2, .kv_heads = 1, .rotary_base = 100}}, {1, 5, (2 + 2) * 4}},
      {"MaxPool", {MaxPool2d{2, 2}}, {2, 3, 4, 6}},
      {"MaxPoolOverlapping", {MaxPool2d{3, 2}}, {1, 2, 7, 5}},
      {"MaxPoolThatDropsAnEdge", {MaxPool2d{2, 2}}, {2, 2, 5, 3}},
      {"Relu", {Relu{}}, {3, 11}},
      {"ReluOfImages", {Relu{}}, {2, 3, 3, 5}},
      {"BatchNorm", {BatchNorm{}}, {6, 4}},
      {"BatchNormOfImages", {BatchNorm{1e-3f}}, {3, 2, 4, 3}},
      {"BatchNormOfOneImage", {BatchNorm{}}, {1, 3, 3, 4}},
  };
}

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> cases = small_layers();
  std::vector<LayerCase> more{
      {"LinearWide", {Linear{129}}, {17, 300}},
      {"LinearDeep", {Linear{10}}, {8, 128}},
      {"ConvOneChannelIn", {conv(32, 3, 1, 1)}, {4, 1, 28, 28}},
      {"ConvThreeChannelsIn", {conv(16, 5, 2, 2)}, {2, 3, 19, 32}},
      {"ConvSixteenToThirtyTwo", {conv(32, 3, 1, 1)}, {3, 16, 14, 14}},
      {"ConvOddChannels", {conv(19, 3, 1, 1)}, {2, 17, 9, 7}},
      {"ConvOneImage", {conv(16, 3, 1, 1, false)}, {1, 16, 8, 8}},
      {"ConvOfFourPixels", {conv(64, 3, 1, 1, false)}, {2, 32, 2, 2}},
      {"ConvOfFewPixelsStride2", {conv(16, 5, 2, 2)}, {2, 3, 4, 4}},
      {"ConvStrideWithoutPadding", {conv(24, 3, 2, 0)}, {2, 8, 12, 11}},
      {"MaxPoolManyChannels", {MaxPool2d{2, 2}}, {3, 32, 14, 14}},
      {"MaxPoolOddChannels", {MaxPool2d{3, 2}}, {2, 17, 13, 9}},
      {"MaxPoolSparse", {MaxPool2d{2, 3}}, {2, 16, 10, 11}},
      {"BatchNormRelu", {BatchNorm{}, Relu{}}, {6, 4}},
      {"BatchNormReluOfImages", {BatchNorm{1e-3f}, Relu{}}, {3, 2, 4, 3}},
      {"LinearRelu", {Linear{24}, Relu{}}, {5, 8}},
      {"LinearGelu", {Linear{24}, Gelu{}}, {2, 5, 8}},
      {"LinearGeluTanh", {Linear{24}, Gelu{.tanh = true}}, {2, 5, 8}},
      {"BatchNormManyFeatures", {BatchNorm{}}, {32, 100}},
      {"BatchNormManyChannels", {BatchNorm{}}, {4, 33, 8, 6}},
      {"ConvConv", {conv(32, 3, 1, 1), conv(20, 3, 2, 1)}, {2, 3, 12, 10}},
      {"ConvReluPool", {conv(32, 3, 1, 1), Relu{}, MaxPool2d{2, 2}}, {4, 1, 12, 12}},
      {"ConvPoolRelu", {conv(17, 3, 1, 1), MaxPool2d{3, 2}, Relu{}}, {2, 2, 11, 12}},
      {"ConvNormRelu", {conv(24, 3, 1, 1, false), BatchNorm{}, Relu{}, conv(16, 3, 1, 1)}, {2, 3, 9, 9}},
      {"ConvLinear", {conv(32, 3, 1, 1), Linear{13}}, {3, 2, 6, 5}},
      {"ConvOddLinear", {conv(18, 3, 1, 1), Linear{13}}, {3, 2, 6, 5}},
      {"PoolLinear", {MaxPool2d{2, 2}, Linear{7}}, {2, 6, 8, 10}},
      {"LinearNormRelu", {Linear{40}, BatchNorm{}, Relu{}, Linear{3}}, {16, 24}},
      {"GroupedChannels", {Conv2d{.out = 32, .kernel = 3, .padding = 1, .groups = 2}, Relu{}}, {2, 32, 7, 9}},
      {"DilatedThenPooled", {Conv2d{.out = 24, .padding = 2, .dilation = 2}, MaxPool2d{3, 2, 1}}, {2, 16, 9, 10}},
      {"ConvAveragePool", {conv(24, 3, 1, 1), AveragePool2d{2, 2}, Gelu{}}, {2, 3, 8, 9}},
      {"ConvGlobalPoolLinear", {conv(20, 3, 1, 1), Silu{}, GlobalAveragePool{}, Linear{5}}, {3, 3, 6, 7}},
      {"Patches",
       {conv(24, 4, 4, 0), PixelsToSequence{}, ClassToken{}, PositionEmbedding{10}, SelectPlace{0}},
       {2, 3, 12, 12}},
      {"ConvDropout", {conv(20, 3, 1, 1), Dropout{.probability = 0.5f}}, {2, 3, 6, 7}},
      {"LayerNormWide", {LayerNorm{}}, {3, 5, 200}},
      {"RmsNormWide", {RmsNorm{}}, {3, 5, 200}},
      {"GatedMlp", {Linear{96}, GatedSilu{}, Linear{20}}, {2, 7, 20}},
      {"AttentionLong", {Attention{.heads = 3}}, {2, 150, 3 * 3 * 16}},
      {"AttentionLongBothWays", {Attention{.heads = 3, .causal = false}}, {1, 150, 3 * 3 * 16}},
      {"AttentionLongOfGroups", {Attention{.heads = 4, .kv_heads = 2, .rotary_base = 10000}}, {2, 70, (4 + 4) * 8}},
      {"Words",
       {Embedding{11, 24}, PositionEmbedding{9}, LayerNorm{}, Linear{72}, Attention{.heads = 4}, Linear{24}},
       {3, 8}},
      {"LeNet",
       {conv(32, 3, 1, 1), Relu{}, MaxPool2d{2, 2}, conv(64, 3, 1, 1), Relu{}, MaxPool2d{2, 2}, Linear{128}, Relu{},
        Linear{10}},
       {3, 1, 28, 28}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace distdl::kernels::test
