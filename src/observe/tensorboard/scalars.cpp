// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <distdl/observe/tensorboard/scalars.hpp>
#include <distdl/records/kinds.hpp>

namespace distdl::observe {
namespace {
std::string tag_of(std::string_view kind, std::string_view field) {
  constexpr std::string_view kValidation = "validation_";
  if (kind == records::StepDone::kKind.name) return "train/" + std::string(field);
  if (field.starts_with(kValidation)) return "validation/" + std::string(field.substr(kValidation.size()));
  return std::string(kind) + "/" + std::string(field);
}

/// By the name of the metric.
std::map<std::string_view, std::string> all_tags() {
  std::map<std::string_view, std::string> tags;
  for (const records::RecordKind& kind : records::record_kinds())
    for (const records::Field& field : kind.fields)
      if (!field.metric.empty() && field.name != "step") tags[field.metric] = tag_of(kind.name, field.name);
  return tags;
}
}  // namespace

std::vector<Scalar> scalars_of(const records::Record& record) {
  static const std::map<std::string_view, std::string> tags = all_tags();
  std::vector<Scalar> scalars;
  for_each_number(record, [&](const records::Field& field, double value) {
    if (const auto tag = tags.find(field.metric); tag != tags.end()) scalars.push_back({tag->second, value});
  });
  return scalars;
}

}  // namespace distdl::observe
