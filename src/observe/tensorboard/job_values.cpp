// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include <distdl/observe/tensorboard/job_values.hpp>

namespace distdl::observe {

nlohmann::json json_of(const std::string& toml) {
  auto value = nlohmann::json::parse(toml, nullptr, false);
  return value.is_discarded() ? nlohmann::json(toml) : value;
}

std::map<std::string, std::string> hyperparameters(const std::map<std::string, std::string>& keys) {
  static constexpr std::array<std::string_view, 7> kSections{"cluster", "data",     "kernels", "model",
                                                             "optim",   "parallel", "train"};
  std::map<std::string, std::string> found;
  std::ranges::copy_if(keys, std::inserter(found, found.end()), [](const auto& entry) {
    return std::ranges::find(kSections, std::string_view(entry.first).substr(0, entry.first.find('.'))) !=
           kSections.end();
  });
  return found;
}

}  // namespace distdl::observe
