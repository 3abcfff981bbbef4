// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/ucx/network_device.hpp>
#include <distdl/comm/ucx/ucx_handles.hpp>
#include <distdl/comm/ucx/ucx_log.hpp>

namespace distdl::comm {
namespace {

void close_config(ucp_config_t* config) noexcept {
  ucp_config_release(config);
}
using UcxConfig = UniqueHandle<ucp_config_t*, &close_config>;

void set(const UcxConfig& config, const char* key, const std::string& value) {
  check_ucx(ucp_config_modify(config.get(), key, value.c_str()), fmt::format("ucp_config_modify {}={}", key, value));
}

// The transports read their settings from the environment alone: ucp_config_modify accepts the keys and ignores them.
// UCX warns of variables that no transport reads, so they are set only where UCX_TLS leaves those transports in.

/// Whether the user's UCX_TLS names any of them; where there is none, `otherwise`.
bool in_use(std::initializer_list<const char*> names, bool otherwise) {
  const auto transports = env("UCX_TLS");
  if (!transports) return otherwise;
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return transports->find(name) != std::string::npos; });
}

/// Without ERROR_HANDLING, endpoints that report errors do not use shared memory. Of the 512 buffers that a transport
/// gets ready by default, 4 MiB, a rank's start would write every page; more are made when needed.
void prepare_shared_memory(const std::string& transport) {
  set_env_default("UCX_" + transport + "_ERROR_HANDLING", "y");
  set_env_default("UCX_" + transport + "_RX_BUFS_GROW", "128");
}

/// In rendezvous the receiver answers before data are sent, and over TCP that answer waits behind the data which go the
/// other way: at 1 Gbit/s two ranks that exchange 32 MiB took up to twice as long. Sent eagerly they fill the line, and
/// without a limit they are faster too, the more so in larger pieces than UCX's own 8 and 64 KiB.
/// See bench/results/comm_two_nodes.md. Long active messages ask for rendezvous themselves (active_messages.cpp); of
/// its schemes pieces of active messages are the fastest over TCP.
///
/// CONN_NB: otherwise opening an endpoint waits in connect(), for minutes if the cable to that node is cut.
///
/// MAX_POLL: UCX takes 16 events at a time from the kernel. If one of them makes it send to a peer that has just closed
/// its end, it closes that endpoint, and ends the process with an assertion when it comes to the event of that endpoint
/// (uct_tcp_iface_handle_events, 1.13 and later). Of one event at a time none is out of date.
void prepare_tcp() {
  set_env_default("UCX_RNDV_THRESH", "inf");
  set_env_default("UCX_RNDV_SCHEME", "am");
  if (!in_use({"all", "tcp"}, true) || tcp_interfaces().empty()) return;
  set_env_default("UCX_TCP_CONN_NB", "y");
  set_env_default("UCX_TCP_MAX_POLL", "1");
  set_env_default("UCX_TCP_TX_SEG_SIZE", "128K");
  set_env_default("UCX_TCP_RX_SEG_SIZE", "256K");
}

UcxConfig make_config(const Options& options) {
  if (in_use({"all", "sm", "shm", "mm", "posix"}, false)) prepare_shared_memory("POSIX");
  if (in_use({"all", "sm", "shm", "mm", "sysv"}, true)) prepare_shared_memory("SYSV");
  if (!may_use_rdma(options.interface)) prepare_tcp();
  ucp_config_t* raw = nullptr;
  check_ucx(ucp_config_read(nullptr, nullptr, &raw), "ucp_config_read");
  UcxConfig config(raw);
  // Both do the same. But posix opens what a peer offers as /proc/<pid>/fd/<n>, when it is first used; if the peer has
  // gone on to its next generation, that is another, shorter file: SIGBUS.
  if (!env("UCX_TLS")) set(config, "TLS", "^posix");
  if (!env("UCX_KEEPALIVE_INTERVAL")) set(config, "KEEPALIVE_INTERVAL", "1s");
  if (options.interface != "auto") set(config, "NET_DEVICES", ucx_devices_of(options.interface));
  return config;
}

}  // namespace

std::string ucx_text(ucs_status_t status) {
  return ucs_status_string(status);
}

/// UCX calls most causes an I/O error. Throws ResourceError if a descriptor or a thread cannot be had now.
static void require_resources(ucs_status_t status, const std::string& call) {
  if (status == UCS_ERR_NO_MEMORY) fail_call<CommError>(call, ENOMEM);
  if (status != UCS_ERR_IO_ERROR && status != UCS_ERR_NO_RESOURCE) return;
  const FileDescriptor probe(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!probe && is_shortage(errno)) fail_call<CommError>(call, errno);
  require_threads(1);
}

void check_ucx(ucs_status_t status, const std::string& call) {
  require_resources(status, call);
  if (status != UCS_OK) throw CommError(fmt::format("{}: {}", call, ucx_text(status)));
}

namespace {
/// Short of addresses (RLIMIT_AS), UCX does not report an error: it ends the program if it cannot start its thread
/// (ucs_async_thread_start, 1.13 and later), and loses messages of peers whose shared memory it cannot map. Throws
/// ResourceError unless this process may take as much as UCX and the threads of a rank need at least.
void require_memory_for_ucx() {
  constexpr std::size_t kNeeded = std::size_t{64} << 20;  // with a stack of 8 MiB for each thread
  void* const taken = ::mmap(nullptr, kNeeded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require_call<CommError>(taken != MAP_FAILED, "the communication of a rank needs {} MiB", kNeeded >> 20);
  ::munmap(taken, kNeeded);
  require_threads(1);
}

UcxContext open_context(const Options& options) {
  require_memory_for_ucx();
  const ContextOpening opening;
  const UcxConfig config = make_config(options);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP | UCP_FEATURE_RMA | UCP_FEATURE_AM;
  params.name = "distdl";
  ucp_context_h context = nullptr;
  check_ucx(ucp_init(&params, config.get(), &context), "ucp_init");
  return UcxContext(context);
}
}  // namespace

std::pair<UcxContext, UcxWorker> open_context_and_worker(const Options& options) {
  constexpr int kAttempts = 20;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  for (int tries = 1;; ++tries) {
    UcxContext context = open_context(options);
    ucp_worker_h worker = nullptr;
    const auto status = ucp_worker_create(context.get(), &params, &worker);
    // The context lists the interfaces, which the worker opens; those of containers and tunnels come and go meanwhile.
    if (status == UCS_ERR_NO_DEVICE && tries < kAttempts) continue;
    check_ucx(status, "ucp_worker_create");
    return {std::move(context), UcxWorker(worker)};
  }
}

std::optional<ucs_memory_type_t> memory_type_of(ucp_context_h context, std::string_view name) {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  check_ucx(ucp_context_query(context, &attributes), "ucp_context_query");
  for (int type = UCS_MEMORY_TYPE_HOST; type < UCS_MEMORY_TYPE_LAST; ++type)
    if (name == ucs_memory_type_names[type] && (attributes.memory_types >> type & 1))
      return static_cast<ucs_memory_type_t>(type);
  return std::nullopt;
}

int event_descriptor(ucp_worker_h worker) {
  int descriptor = -1;
  check_ucx(ucp_worker_get_efd(worker, &descriptor), "ucp_worker_get_efd");
  return descriptor;
}

std::string address_of(ucp_worker_h worker, AddressKind kind) {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  if (kind == AddressKind::network_only) {
    attributes.field_mask |= UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  }
  check_ucx(ucp_worker_query(worker, &attributes), "ucp_worker_query");
  std::string address(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucp_worker_release_address(worker, attributes.address);
  return address;
}

ucp_ep_h open_endpoint(ucp_worker_h worker, const std::string& address, ucp_err_handler_cb_t on_error, void* argument) {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = argument;
  ucp_ep_h endpoint = nullptr;
  check_ucx(ucp_ep_create(worker, &params, &endpoint), "ucp_ep_create");
  return endpoint;
}

ExposedMemory::ExposedMemory(ucp_context_h context, All& all, std::span<std::byte> memory)
    : context_(context), all_(all) {
  if (memory.empty()) return;  // UCX maps none
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = memory.size();
  all_.reserve(all_.size() + 1);
  check_ucx(ucp_mem_map(context_, &params, &memory_), fmt::format("ucp_mem_map of {} bytes", memory.size()));
  all_.push_back(this);
}

ExposedMemory::~ExposedMemory() {
  std::erase(all_, this);
  unmap();
}

void ExposedMemory::unmap() noexcept {
  if (memory_) ucp_mem_unmap(context_, std::exchange(memory_, nullptr));
}

std::string ExposedMemory::key() const {
  if (!memory_) return "";
  void* buffer = nullptr;
  std::size_t size = 0;
  check_ucx(ucp_rkey_pack(context_, memory_, &buffer, &size), "ucp_rkey_pack");
  std::string key(static_cast<const char*>(buffer), size);
  ucp_rkey_buffer_release(buffer);
  return key;
}

std::string lanes_of(ucp_ep_h endpoint) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* stream = ::open_memstream(&text, &size);
  if (!stream) return "unknown";
  ucp_ep_print_info(endpoint, stream);
  std::fclose(stream);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  // Lines such as "#   lane[0]:  2:posix/memory.0 md[2]  -> md[2]/posix/sysdev[255] am am_bw#0 keepalive".
  std::istringstream words(text);
  std::string lanes;
  for (std::string word, before; words >> word; before = word) {
    if (!before.starts_with("lane[")) continue;
    const auto begin = word.find(':') + 1;
    lanes += (lanes.empty() ? "" : " ") + word.substr(begin, word.rfind('.') - begin);
  }
  return lanes.empty() ? "unknown" : lanes;
}

}  // namespace distdl::comm
