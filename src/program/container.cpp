// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include <distdl/program/container.hpp>

namespace distdl::program {
namespace {
using Words = std::vector<std::string>;

bool names_option(const Words& words, const std::string& option) {
  return std::ranges::any_of(words, [&](const auto& word) { return word == option || word.starts_with(option + "="); });
}
}  // namespace

Words words_of_container(const Words& given, const Words& variables, const Words& folders) {
  const auto verb = std::ranges::find(given, "run");
  if (verb == given.end() || std::filesystem::path(given.front()).filename() != "podman") return given;
  Words words(given.begin(), std::next(verb));
  for (const char* shared : {"--network", "--ipc", "--pid"})
    if (!names_option(given, shared)) words.push_back(std::string(shared) + "=host");
  for (const auto& name : variables) words.push_back("--env=" + name);
  for (const auto& folder : folders) words.push_back(fmt::format("--volume={0}:{0}", folder));
  words.insert(words.end(), std::next(verb), given.end());
  return words;
}

}  // namespace distdl::program
