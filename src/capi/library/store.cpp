// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <distdl/base/checksum.hpp>
#include <distdl/base/env.hpp>
#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/options_text.hpp>
#include <distdl/capi/library/store.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/groups/communicator_group.hpp>
#include <distdl/groups/writing_group.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::capi {
namespace {

Clock::duration patience_of(const checkpoint::Options& options) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.timeout_seconds));
}

std::unique_ptr<checkpoint::Group> group_of(const std::shared_ptr<CommunicatorObject>& of,
                                            const checkpoint::Options& options) {
  if (!of) return std::make_unique<checkpoint::SingleProcessGroup>();
  return std::make_unique<groups::CommunicatorGroup>(of->get(), options.timeout_seconds);
}

checkpoint::Owner owner_here() {
  const auto allocation = slurm::allocation_by_variables();
  checkpoint::Owner owner;
  owner.job = allocation ? allocation->job : "local";
  owner.restart = allocation ? allocation->restart : 0;
  owner.generation = static_cast<std::uint32_t>(env_integer("DISTDL_GENERATION").value_or(0));
  owner.launch = env("DISTDL_LAUNCH").value_or("");
  return owner;
}

checkpoint::Options store_options(const char* text) {
  checkpoint::Options options;
  read_options(text, options);
  require(!options.every.automatic, "checkpoint.every = \"auto\" is for distdl's own training: give a number of steps");
  require(options.failure_domain == checkpoint::FailureDomain::node,
          "checkpoint.failure_domain must be \"node\" for programs");
  return options;
}

/// A program may end without closing its stores, for instance after an error. Their writing threads must not outlive
/// the library's variables.
void end_saves() {
  for (const auto& one : Handles::all().open_ones(Kind::store)) {
    auto& store = *static_cast<StoreObject*>(one.get());
    if (const auto lock = store.family->try_lock()) store.saver.reset();
  }
}

}  // namespace

std::filesystem::path checkpoint_folder(const char* folder) {
  if (folder != nullptr) {
    need(*folder != '\0', "folder is empty");
    return folder;
  }
  const auto run = env("DISTDL_RUN_DIR");
  need(run.has_value(), "folder is null, and DISTDL_RUN_DIR is not set: this process was not started by distdl run");
  return std::filesystem::path(*run) / "checkpoints";
}

StoreObject::StoreObject(const std::filesystem::path& folder, const checkpoint::Options& options,
                         std::shared_ptr<CommunicatorObject> of)
    : communicator(std::move(of)),
      family(communicator ? communicator->family : std::make_shared<Family>()),
      use_of(communicator),
      store(folder, options),
      group(group_of(communicator, options)) {
  store.take(*group, owner_here());
}

std::optional<checkpoint::Levels::Setup> StoreObject::levels() const {
  if (!has_levels(store.options())) return std::nullopt;
  const std::string run = store.run_name();
  const std::string node = communicator ? communicator->get().host(Rank(communicator->rank)) : "here";
  return checkpoint::Levels::Setup{.run = run, .memory = run, .place = {node, ""}, .options = store.options()};
}

checkpoint::Saver& StoreObject::saver_for(std::span<const checkpoint::Slice> slices) {
  if (saver) return *saver;
  [[maybe_unused]] static const int registered = (Sha256().hex(), std::atexit(end_saves));  // after OpenSSL
  const checkpoint::Options& options = store.options();
  std::unique_ptr<checkpoint::Group> writing;
  if (options.mode != checkpoint::SaveMode::sync)
    writing = communicator ? groups::make_writing_group(communicator->get(), patience_of(options))
                           : std::make_unique<checkpoint::SingleProcessGroup>();
  const auto setup = levels();
  saver.emplace(store, *group, std::move(writing),
                checkpoint::Saver::Setup{
                    .run = store.run_name(), .finite = false, .keep_buffers = setup.has_value(), .levels = setup});
  saver->prepare(slices, {});
  return *saver;
}

void StoreObject::collect_outcomes() {
  if (!saver) return;
  for (auto& outcome : saver->outcomes()) ended.push_back(std::move(outcome));
}

std::pair<int, int> StoreObject::writer() const {
  if (!communicator) return {0, 1};
  int index = -1, writers = 0;
  for (int rank = 0; rank < communicator->size; ++rank) {
    if (communicator->get().ranks_on_host_of(Rank(rank)).front() != Rank(rank)) continue;
    if (rank == communicator->rank) index = writers;
    ++writers;
  }
  return {index, writers};
}

}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

int distdl_store_open(const char* folder, distdl_comm* comm, const char* options, distdl_store** store) {
  return guarded<Blame::options>(__func__, [&] {
    clear(store, "store");
    const auto path = checkpoint_folder(folder);
    const auto read = store_options(options);
    const auto object = comm ? object_of<CommunicatorObject>(comm, "comm") : nullptr;
    const auto open = [&] { *store = open_handle(std::make_shared<StoreObject>(path, read, object)); };
    if (object)
      use(*object->family, open);
    else
      open();
  });
}

int distdl_store_close(distdl_store* store) {
  return guarded(__func__, [&] {
    auto object = object_of<StoreObject>(store, "store");
    const auto family = object->family;
    const auto lock = family->lock();
    const int parts = object->parts;
    if (!family->has_failed() && parts > 0) fail(DISTDL_STATE, "{} saves or loads are open: close them first", parts);
    close_handle(store);
    try {
      family->check();
      if (object->saver) {
        object->saver->wait();
        object->saver->close();
      }
    } catch (const CommError& error) {
      family->set_failed(error.what());
      object.reset();
      throw;
    } catch (...) {
      object.reset();
      throw;
    }
    object.reset();
  });
}

int distdl_store_due(distdl_store* store, int64_t step, int* how) {
  return guarded(__func__, [&] {
    written(how, "how") = 0;
    const auto object = object_of<StoreObject>(store, "store");
    need(step >= 0, "step is {}", step);
    const checkpoint::Options& options = object->store.options();
    const auto is_due = [step](std::int64_t every) { return every > 0 && step % every == 0; };
    const bool is_kept = is_due(options.memory_every) || !due_levels(options, Step(step)).is_empty();
    *how = is_due(options.every.steps) ? DISTDL_BESIDE : is_kept ? DISTDL_SNAPSHOT : 0;
  });
}

int distdl_store_steps(distdl_store* store, int64_t* steps, size_t capacity, size_t* count) {
  return guarded(__func__, [&] {
    written(count, "count") = 0;
    need(steps != nullptr || capacity == 0, "steps is null");
    const auto all = checkpoint::list(object_of<StoreObject>(store, "store")->store.root());
    for (std::size_t i = 0; i < std::min(capacity, all.size()); ++i) steps[i] = all[i].step.value;
    *count = all.size();
  });
}

int distdl_store_wait(distdl_store* store) {
  return guarded(__func__, [&] {
    const auto object = object_of<StoreObject>(store, "store");
    use(*object->family, [&] {
      object->saving([&] {
        if (object->saver) object->saver->wait();
      });
    });
  });
}

int distdl_store_busy(distdl_store* store, int* busy) {
  return guarded(__func__, [&] {
    written(busy, "busy") = 0;
    const auto object = object_of<StoreObject>(store, "store");
    const auto lock = object->family->lock();
    *busy = object->saver && object->saver->is_busy();
  });
}

int distdl_store_outcome(distdl_store* store, distdl_outcome* outcome) {
  return guarded(__func__, [&] {
    distdl_outcome& told = written(outcome, "outcome");
    need(told.size >= sizeof(distdl_outcome), "outcome->size is {}, but must be sizeof(distdl_outcome), {}", told.size,
         sizeof(distdl_outcome));
    const auto object = object_of<StoreObject>(store, "store");
    const auto lock = object->family->lock();
    object->collect_outcomes();
    if (object->ended.empty()) fail(DISTDL_NOT_FOUND, "no save has ended since the last call");
    const checkpoint::SaveOutcome& ended = object->ended.front();
    told.step = ended.step.value;
    told.bytes = static_cast<std::int64_t>(ended.bytes);
    told.stall_seconds = ended.stall_seconds;
    told.durable_seconds = ended.durable_seconds;
    told.code = ended.error.empty() ? DISTDL_OK : DISTDL_STORAGE;
    told.is_checkpoint = ended.file_system;
    if (!ended.error.empty()) keep_error(DISTDL_STORAGE, ended.error);
    object->ended.pop_front();
  });
}
