// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/program/error_file.hpp>

namespace distdl::program {
namespace {
/// An empty text if there is none.
std::string text_in(const nlohmann::json& json, const char* key, std::size_t most) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_string()) return "";
  return found->get_ref<const std::string&>().substr(0, most);
}
}  // namespace

std::optional<ProgramError> error_from(std::string_view json) {
  constexpr std::size_t kMostOfMessage = 1000, kMostOfStack = 64 << 10;
  const auto file = nlohmann::json::parse(json, nullptr, false);
  if (!file.is_object()) return std::nullopt;
  ProgramError error{text_in(file, "message", kMostOfMessage)};  // torchrun's own form
  if (const auto inner = file.find("message"); inner != file.end() && inner->is_object()) {
    error.message = text_in(*inner, "message", kMostOfMessage);
    if (const auto more = inner->find("extraInfo"); more != inner->end())
      error.stack = text_in(*more, "py_callstack", kMostOfStack);
  }
  return error.message.empty() ? std::nullopt : std::optional(std::move(error));
}

std::optional<ProgramError> read_error(const PrivateFolder& folder) try {
  constexpr std::size_t kMost = 1 << 20;
  return error_from(folder.read(kErrorFile, kMost));
} catch (const StorageError& error) {
  pass_on_shortage(error);
  if (error.exit_code() != ExitCode::incomplete) log(Severity::debug, "{}", error.what());
  return std::nullopt;
}

}  // namespace distdl::program
