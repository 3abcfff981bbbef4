// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <distdl/base/one_of.hpp>
#include <distdl/compression/formats.hpp>

namespace distdl::parallel {

/// Encoding in which ranks send their gradients. All but `none` change the result, with the number of ranks.
enum class Compression { none, bf16, fp16, int8, topk, onebit, powersgd, automatic };

/// A row of the table of encodings.
struct Encoding {
  Named<Compression> name;
  /// The elements of large tensors have this one. Exact also where matrices are coded as a whole, and with "auto".
  const compression::Format* format = &compression::kExact;
  /// Encoding of the parameters that servers send: these have no error feedback.
  Compression of_parameters = Compression::bf16;
  bool warms_up = false;  ///< runs begin with kWarmup
  /// After the warm-up AdamW's second moments stay as they are, and its first ones are coded.
  bool holds_second_moments = false;
  const char* own_key = "";    ///< a key that changes the result with this encoding only
  bool is_candidate = false;   ///< "auto" chooses among these
  bool makes_factors = false;  ///< matrices are summed as factors, which all ranks find together
};
/// In the order of the enum.
constexpr std::array kEncodings{
    Encoding{
        .name = {Compression::none, "none", "as they are"}, .of_parameters = Compression::none, .is_candidate = true},
    Encoding{.name = {Compression::bf16, "bf16", "16 bits each"}, .format = &compression::kBf16, .is_candidate = true},
    Encoding{.name = {Compression::fp16, "fp16", "16 bits each, with more precision and less range"},
             .format = &compression::kFp16,
             .of_parameters = Compression::fp16},
    Encoding{.name = {Compression::int8, "int8", "8 bits each, and a scale for each 256"},
             .format = &compression::kInt8,
             .is_candidate = true},
    Encoding{.name = {Compression::topk, "topk", "the largest only, parallel.compression_fraction of them"},
             .format = &compression::kTopk,
             .warms_up = true,
             .holds_second_moments = true,
             .own_key = "parallel.compression_fraction"},
    Encoding{.name = {Compression::onebit, "onebit", "the signs, and two means for each 1024"},
             .format = &compression::kOnebit,
             .warms_up = true,
             .holds_second_moments = true},
    Encoding{.name = {Compression::powersgd, "powersgd",
                      "matrices as products of factors with parallel.compression_rank columns"},
             .warms_up = true,
             .own_key = "parallel.compression_rank",
             .makes_factors = true},
    Encoding{.name = {Compression::automatic, "auto", "as the network is fast, decided again while the run goes on"}},
};
static_assert([] {
  for (std::size_t i = 0; i < kEncodings.size(); ++i)
    if (static_cast<std::size_t>(kEncodings[i].name.value) != i) return false;
  return true;
}());
constexpr const Encoding& encoding_of(Compression compression) {
  return kEncodings[static_cast<std::size_t>(compression)];
}
/// The help of "auto" begins with its candidates.
std::span<const Named<Compression>> choices_of(Compression which);

/// Compression with which those that warm up begin.
constexpr Compression kWarmup = Compression::int8;
/// The help of parallel.compression_warmup_steps.
const char* help_of_warmup();

/// Encoding of changes of parameters that the ranks with shards send, where gradients have this one. An error of a
/// parameter harms at once, so these are nearly exact.
constexpr Compression encoding_of_changes(Compression gradients) {
  return encoding_of(gradients).warms_up ? kWarmup : gradients;
}

struct CompressionOptions {
  OneOf<Compression> encoding = Compression::none;
  double fraction = 0.01;           ///< with topk: the part of the gradients that is sent
  std::int64_t rank = 4;            ///< with powersgd: columns of the factors
  std::int64_t warmup_steps = 400;  ///< with encodings that warm up: kWarmup until then
  bool of_parameters = false;       ///< with shards: changes of parameters are sent in codes, too

  bool is_on() const { return encoding != Compression::none; }
  /// Compression in use in a step that follows `step` others.
  constexpr Compression in_use(std::int64_t step) const {
    return encoding_of(Compression(encoding)).warms_up && step < warmup_steps ? kWarmup : Compression(encoding);
  }
};

/// The keys of the compression of gradients.
template <class Visitor>
void describe(CompressionOptions& options, Visitor&& visit) {
  visit("parallel.compression", options.encoding,
        OneOf<Compression>::help(
            "in which form data-parallel replicas send their gradients, with local SGD what has "
            "changed in a group's parameters in a round, and what workers of a parameter server push and pull "
            "(docs/compression.md); what a form lacks is sent in later steps; with any but "
            "\"none\" the result depends on the number of ranks"));
  visit("parallel.compression_fraction", options.fraction,
        "with parallel.compression = \"topk\": the part of the gradients that is sent, above 0 and up to 0.5; the "
        "result depends on it");
  visit("parallel.compression_rank", options.rank,
        "with parallel.compression = \"powersgd\": the rank of the matrices that are sent, from 1 to 64; the result "
        "depends on it");
  visit("parallel.compression_warmup_steps", options.warmup_steps, help_of_warmup());
  visit("parallel.compression_of_parameters", options.of_parameters,
        "with parallel.strategy = \"sharded\" or \"sharded_gradients\": ranks gather what a step has changed of the "
        "parameters in this form, too, \"int8\" with \"topk\", \"onebit\" and \"powersgd\", instead of the parameters "
        "as they are; the result depends on it");
}

}  // namespace distdl::parallel
