// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <uct/api/uct.h>

#include <distdl/base/handles.hpp>
#include <distdl/comm/ucx/transports.hpp>
#include <distdl/comm/ucx/ucx_handles.hpp>
#include <distdl/comm/ucx/ucx_log.hpp>

namespace distdl::comm {
namespace {
void close_domain(uct_md_h domain) noexcept {
  uct_md_close(domain);
}
using MemoryDomain = UniqueHandle<uct_md_h, &close_domain>;

MemoryDomain open_domain(uct_component_h component, const char* name) {
  uct_md_config_t* config = nullptr;
  check_ucx(uct_md_config_read(component, nullptr, nullptr, &config), "uct_md_config_read");
  uct_md_h domain = nullptr;
  ucs_status_t status = uct_md_open(component, name, config, &domain);
  uct_config_release(config);
  return status == UCS_OK ? MemoryDomain(domain) : MemoryDomain();  // a device that cannot be opened is not available
}

void add_resources(uct_md_h domain, Transports& found) {
  uct_tl_resource_desc_t* resources = nullptr;
  unsigned count = 0;
  check_ucx(uct_md_query_tl_resources(domain, &resources, &count), "uct_md_query_tl_resources");
  for (unsigned i = 0; i < count; ++i) {
    std::string transport = resources[i].tl_name;
    found.names.push_back(transport + "/" + resources[i].dev_name);
    found.rdma |= resources[i].dev_type == UCT_DEVICE_TYPE_NET && transport.rfind("tcp", 0) != 0;
  }
  uct_release_tl_resource_list(resources);
}

void add_component(uct_component_h component, Transports& found) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  check_ucx(uct_component_query(component, &attributes), "uct_component_query");
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  check_ucx(uct_component_query(component, &attributes), "uct_component_query");
  for (const auto& resource : domains)
    if (auto domain = open_domain(component, resource.md_name)) add_resources(domain.get(), found);
}
}  // namespace

Transports available_transports() {
  route_ucx_log();
  Transports found;
  found.ucx_version = ucp_get_version_string();
  uct_component_h* components = nullptr;
  unsigned count = 0;
  check_ucx(uct_query_components(&components, &count), "uct_query_components");
  std::unique_ptr<uct_component_h, void (*)(uct_component_h*)> owner(components, &uct_release_component_list);
  for (unsigned i = 0; i < count; ++i) add_component(components[i], found);
  std::sort(found.names.begin(), found.names.end());
  return found;
}

}  // namespace distdl::comm
