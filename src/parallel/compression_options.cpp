// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/listed.hpp>
#include <distdl/parallel/compression_options.hpp>

namespace distdl::parallel {
namespace {
/// The names of the encodings with a property: "none, bf16 or int8".
std::string names_of(bool Encoding::*property, std::string_view quote, std::string_view last) {
  std::vector<std::string> names;
  for (const Encoding& each : kEncodings)
    if (each.*property) names.push_back(fmt::format("{0}{1}{0}", quote, each.name.name));
  return listed(names, last);
}
}  // namespace

std::span<const Named<Compression>> choices_of(Compression /*which*/) {
  static const auto of_auto =
      fmt::format("{}, {}", names_of(&Encoding::is_candidate, "", "or"), encoding_of(Compression::automatic).name.help);
  static const auto choices = [] {
    std::array<Named<Compression>, kEncodings.size()> rows{};
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = kEncodings[i].name;
    rows[static_cast<std::size_t>(Compression::automatic)].help = of_auto;
    return rows;
  }();
  return choices;
}

const char* help_of_warmup() {
  static const auto help = fmt::format(
      "with parallel.compression = {}: the first so many steps of a run send \"{}\" instead; 0: none; after it {} "
      "leave AdamW's second moments as they are, with replicas and optim.clip_norm = 0 (docs/compression.md); the "
      "result depends on it",
      names_of(&Encoding::warms_up, "\"", "or"), encoding_of(kWarmup).name.name,
      names_of(&Encoding::holds_second_moments, "", "and"));
  return help.c_str();
}

}  // namespace distdl::parallel
