// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <distdl/app/report/page.hpp>

namespace distdl::app {
namespace {
/// The browser loads nothing, whatever the data say.
constexpr const char* kPageHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<title>distdl report</title>
<style>
)";
constexpr const char* kPageBody = R"(</style>
</head>
<body>
<main id="report"><noscript>This report needs JavaScript, which is switched off here.</noscript></main>
<script type="application/json" id="data">)";

/// No tag can begin or end within a script: in JSON "<" stands only in texts.
std::string data_text(const nlohmann::ordered_json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    c == '<' ? text += "\\u003c" : text += c;
  return text;
}
}  // namespace

std::string page_of(const nlohmann::ordered_json& data, const PageParts& parts) {
  std::string page = kPageHead + parts.style + kPageBody + data_text(data) + "</script>\n";
  for (const auto& script : {parts.library, parts.script})
    if (!script.empty()) page += "<script>\n" + script + "</script>\n";
  return page + "</body>\n</html>\n";
}

}  // namespace distdl::app
