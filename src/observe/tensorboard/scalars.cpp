// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include <distdl/observe/tensorboard/scalars.hpp>

namespace distdl::observe {
namespace {
std::string tag_of(std::string_view kind, std::string_view field) {
  constexpr std::string_view kValidation = "validation_";
  if (kind == "step") return "train/" + std::string(field);
  if (field.starts_with(kValidation)) return "validation/" + std::string(field.substr(kValidation.size()));
  return std::string(kind) + "/" + std::string(field);
}

/// By the address of the field in its table.
std::map<const Field*, std::string> all_tags() {
  std::map<const Field*, std::string> tags;
  for (const RecordKind& kind : record_kinds())
    for (const Field& field : kind.fields)
      if (!field.metric.empty() && field.name != "step") tags[&field] = tag_of(kind.name, field.name);
  return tags;
}
}  // namespace

std::vector<Scalar> scalars_of(const RecordKind& kind, const nlohmann::ordered_json& row) {
  static const std::map<const Field*, std::string> tags = all_tags();
  std::vector<Scalar> scalars;
  for (const Field& field : kind.fields) {
    const auto tag = tags.find(&field);
    const auto value = row.find(field.name);
    if (tag != tags.end() && value != row.end() && value->is_number())
      scalars.push_back({tag->second, value->get<double>()});
  }
  return scalars;
}

const RecordKind* kind_of_row(const nlohmann::ordered_json& row) {
  if (const auto event = row.find("event"); event != row.end())
    return event->is_string() ? find_kind(event->get_ref<const std::string&>()) : nullptr;
  return find_kind(row.contains("loss") ? "step" : row.contains("validation_loss") ? "evaluation" : "");
}

}  // namespace distdl::observe
