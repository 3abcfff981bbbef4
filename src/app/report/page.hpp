// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace distdl::app {

/// The parts of a page that do not depend on runs, which the build takes from page.css, charts.js and page.js, and from
/// the plotting library dygraphs.
struct PageParts {
  std::string style, script;
  std::string library;  ///< empty: there was none when distdl was built, and the page draws curves itself
};
const PageParts& page_parts();

/// A document of HTML that needs no other file. `data`: report_data(). Its texts are not trusted.
std::string page_of(const nlohmann::ordered_json& data, const PageParts& parts = page_parts());

}  // namespace distdl::app
