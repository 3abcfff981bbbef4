// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/env.hpp>
#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/callers_world.hpp>
#include <distdl/capi/library/communicator.hpp>
#include <distdl/capi/library/options_text.hpp>
#include <distdl/capi/library/request.hpp>
#include <distdl/world/folder_world.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::capi {

std::unique_lock<std::mutex> Family::lock() {
  if (::getpid() != process_) fail(DISTDL_STATE, "a child after fork() must not use what its parent has opened");
  ++waiting_;
  std::unique_lock lock(mutex_);
  --waiting_;
  return lock;
}

std::unique_lock<std::mutex> Family::try_lock() {
  if (::getpid() != process_) return {};
  return std::unique_lock(mutex_, std::try_to_lock);
}

void Family::check() const {
  if (failed_) throw CallError(DISTDL_PEER_LOST, why_);
}

void Family::set_failed(const std::string& why) noexcept {
  if (failed_) return;
  try {
    why_ = "the communicator can only be closed, because before: " + why;
  } catch (const std::bad_alloc&) {
    why_.clear();
  }
  failed_ = true;
}

CommunicatorObject::CommunicatorObject(std::unique_ptr<comm::Communicator> own, std::shared_ptr<CommunicatorObject> of)
    : parent(std::move(of)),
      family(parent ? parent->family : std::make_shared<Family>()),
      rank(own->rank().value),
      size(own->size()),
      communicator(std::move(own)) {
  if (parent) ++parent->users;
}

CommunicatorObject::~CommunicatorObject() {
  if (parent) --parent->users;
}

void CommunicatorObject::require_unused() const {
  if (!requests.empty())
    fail(DISTDL_STATE, "{} requests are under way: wait for them, or cancel them", requests.size());
  if (const int count = users; count > 0)
    fail(DISTDL_STATE, "{} communicators, sums or stores use it: close them first", count);
}

void CommunicatorObject::cancel_requests() noexcept {
  for (RequestObject* request : requests) request->request = {};
  requests.clear();
}

namespace {
comm::Options comm_options(const char* text) {
  comm::Options options;
  read_options(text, options);
  return options;
}

distdl_comm* connect(world::World& world, const comm::Options& options) {
  return open_handle(std::make_shared<CommunicatorObject>(comm::Communicator::connect(world, options), nullptr));
}

Rank rank_in(const CommunicatorObject& object, int rank) {
  need(rank >= 0 && rank < object.get().size(), "rank is {}, but the communicator has {} ranks", rank,
       object.get().size());
  return Rank(rank);
}
}  // namespace
}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

int distdl_comm_create(const char* options, distdl_comm** comm) {
  return guarded<Blame::options>(__func__, [&] {
    clear(comm, "comm");
    auto read = comm_options(options);
    if (const auto generation = env_integer("DISTDL_GENERATION"))
      read.generation = static_cast<std::uint32_t>(*generation);
    *comm = connect(*world::make_world(), read);
  });
}

int distdl_comm_create_folder(const char* folder, const char* id, int rank, int size, const char* options,
                              distdl_comm** comm) {
  return guarded<Blame::options>(__func__, [&] {
    clear(comm, "comm");
    need(size > 0, "size is {}", size);
    need(rank >= 0 && rank < size, "rank is {}, but size is {}", rank, size);
    const world::FolderMeeting meeting{text(folder, "folder"), text(id, "id"), Rank(rank), size};
    *comm = connect(*world::make_folder_world(meeting), comm_options(options));
  });
}

int distdl_comm_create_exchange(distdl_exchange exchange, void* context, int rank, int size, const char* options,
                                distdl_comm** comm) {
  return guarded<Blame::options>(__func__, [&] {
    clear(comm, "comm");
    need(exchange != nullptr, "exchange is null");
    need(size > 0, "size is {}", size);
    need(rank >= 0 && rank < size, "rank is {}, but size is {}", rank, size);
    CallersWorld world(exchange, context, Rank(rank), size);
    *comm = connect(world, comm_options(options));
  });
}

int distdl_comm_split(distdl_comm* comm, int color, int key, distdl_comm** part) {
  return guarded(__func__, [&] {
    clear(part, "part");
    const auto object = object_of<CommunicatorObject>(comm, "comm");
    use(*object->family, [&] {
      auto own = object->get().split(color, key);
      if (own) *part = open_handle(std::make_shared<CommunicatorObject>(std::move(own), object));
    });
  });
}

int distdl_comm_close(distdl_comm* comm) {
  return guarded(__func__, [&] {
    auto object = object_of<CommunicatorObject>(comm, "comm");
    const auto family = object->family;
    const auto lock = family->lock();
    if (family->has_failed()) {
      object->cancel_requests();
      close_handle(comm);
      object.reset();  // sums and stores may need it longer
      return;
    }
    object->require_unused();
    close_handle(comm);
    object->memory.clear();
    try {
      object->get().close();
    } catch (const CommError& error) {
      family->set_failed(error.what());
      throw;
    }
    object->communicator.reset();
  });
}

int distdl_comm_abort(distdl_comm* comm, int code, const char* reason) {
  return guarded(__func__, [&] {
    const auto object = object_of<CommunicatorObject>(comm, "comm");
    const std::string why = text(reason, "reason");
    need(code > 0 && entry_of(code) != nullptr, "code is {}, which is no exit code of distdl", code);
    use(*object->family, [&] {
      object->get().abort(why, static_cast<ExitCode>(code));
      object->family->set_failed("this rank has told the others that it ends: " + why);
    });
  });
}

int distdl_comm_rank(distdl_comm* comm, int* rank) {
  return guarded(__func__, [&] { written(rank, "rank") = object_of<CommunicatorObject>(comm, "comm")->rank; });
}

int distdl_comm_size(distdl_comm* comm, int* size) {
  return guarded(__func__, [&] { written(size, "size") = object_of<CommunicatorObject>(comm, "comm")->size; });
}

int distdl_comm_host(distdl_comm* comm, int rank, const char** host) {
  return guarded(__func__, [&] {
    written(host, "host") = nullptr;
    const auto object = object_of<CommunicatorObject>(comm, "comm");
    const auto lock = object->family->lock();
    *host = object->get().host(rank_in(*object, rank)).c_str();
  });
}

int distdl_comm_local_rank(distdl_comm* comm, int* local_rank, int* local_size) {
  return guarded(__func__, [&] {
    const auto object = object_of<CommunicatorObject>(comm, "comm");
    const auto lock = object->family->lock();
    const Rank own = object->get().rank();
    const auto ranks = object->get().ranks_on_host_of(own);
    if (local_rank) *local_rank = static_cast<int>(std::ranges::find(ranks, own) - ranks.begin());
    if (local_size) *local_size = static_cast<int>(ranks.size());
  });
}

int distdl_comm_allocate(distdl_comm* comm, size_t bytes, void** memory) {
  return guarded(__func__, [&] {
    written(memory, "memory") = nullptr;
    const auto object = object_of<CommunicatorObject>(comm, "comm");
    use(*object->family, [&] {
      auto buffer = object->get().allocate(bytes);
      void* const address = buffer.data();
      if (address) object->memory.emplace(address, std::move(buffer));
      *memory = address;
    });
  });
}

int distdl_comm_free(distdl_comm* comm, void* memory) {
  return guarded(__func__, [&] {
    const auto object = object_of<CommunicatorObject>(comm, "comm");
    const auto lock = object->family->lock();
    need(memory == nullptr || object->memory.erase(memory) > 0, "memory is not from distdl_comm_allocate()");
  });
}
