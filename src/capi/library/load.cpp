// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include <distdl/base/vote.hpp>
#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/store.hpp>
#include <distdl/checkpoint/inspect.hpp>

namespace distdl::capi {
namespace {

/// The snapshots that a checkpoint is read from.
struct Snapshots {
  checkpoint::Levels& levels;
  checkpoint::RestorePlan plan;
};

/// A checkpoint that is being read. Its members are used while the family is locked.
class LoadObject {
 public:
  using Handle = distdl_load;
  static constexpr Kind kKind = Kind::load;

  explicit LoadObject(std::shared_ptr<StoreObject> of) : store(std::move(of)), family(store->family) { ++store->parts; }
  explicit LoadObject(const std::filesystem::path& folder)
      : family(std::make_shared<Family>()), own(std::in_place, folder, checkpoint::Options{}) {}
  ~LoadObject() {
    if (store) --store->parts;
  }
  LoadObject(const LoadObject&) = delete;
  LoadObject& operator=(const LoadObject&) = delete;

  const tensor::Shape& shape(std::size_t number) const { return found.tensors[number].shape; }
  std::size_t find(const char* name) const;

  const std::shared_ptr<StoreObject> store;  ///< null: this process reads alone
  const std::shared_ptr<Family> family;
  const std::optional<checkpoint::Store> own;
  std::optional<checkpoint::Levels> levels;
  std::optional<checkpoint::RestorePlan> snapshots;  ///< empty: it is on the file system
  checkpoint::Summary found;
  std::vector<checkpoint::Target> targets;
  std::array<std::byte, sizeof(double)> unwanted{};  ///< for scalars that are read, but not asked for
};

std::size_t LoadObject::find(const char* name) const {
  need(name != nullptr, "name is null");
  const auto at = std::ranges::find(found.tensors, name, &checkpoint::TensorEntry::name);
  if (at == found.tensors.end())
    fail(DISTDL_NOT_FOUND, "the checkpoint of step {} has no array \"{}\"", found.step, name);
  return static_cast<std::size_t>(at - found.tensors.begin());
}

/// Leaves the restore of snapshots when their contents are known, on all ranks at the same place.
struct Listed {};

/// Collective. What the snapshots contain. Throws StorageError if they cannot be used.
checkpoint::Summary contents_of(checkpoint::Levels& levels, const checkpoint::RestorePlan& plan) {
  checkpoint::Summary contents;
  checkpoint::State state;
  const auto list = [&](const checkpoint::Summary& all) -> std::vector<checkpoint::Target> {
    contents = all;
    throw Listed();
  };
  try {
    levels.restore_what_is_there(plan, list, state);
  } catch (const Listed&) {
  }
  contents.step = plan.step;
  return contents;
}

/// Collective. Takes the snapshots if they are at least as new as the newest checkpoint.
bool take_snapshots(LoadObject& load, std::optional<Step> below) {
  StoreObject& store = *load.store;
  auto setup = store.saver ? std::nullopt : store.levels();  // while it saves, the newest snapshots are its own
  if (!setup) return false;
  load.levels.emplace(*store.group, store.store.files(), *std::move(setup));
  auto plan = load.levels->find();
  if (!plan || (below && plan->step >= *below) || plan->start.number < store.store.owner().snapshots_since)
    return false;
  const auto newest = store.store.newest(*store.group, below);
  if (newest && !is_as_new_as(*plan, *newest)) return false;
  try {
    load.found = contents_of(*load.levels, *plan);
  } catch (const StorageError&) {
    return false;
  }
  load.snapshots = std::move(plan);
  return true;
}

/// Collective.
void find_newest(LoadObject& load, std::optional<Step> below) {
  if (take_snapshots(load, below)) return;
  StoreObject& store = *load.store;
  const auto found = store.store.newest_valid(*store.group, below);
  if (!found) fail(DISTDL_NOT_FOUND, "there is no checkpoint in \"{}\" yet", store.store.root().string());
  load.found = *found;
  if (load.levels) load.levels->keep_only(std::nullopt);
}

/// Collective. All arrays are asked for, those that the caller does not want as boxes without elements.
void read_snapshots(LoadObject& load) {
  const auto targets_of = [&](const checkpoint::Summary& all) {
    auto targets = load.targets;
    for (const auto& [name, type, shape] : all.tensors) {
      if (std::ranges::find(load.targets, name, &checkpoint::Target::name) != load.targets.end()) continue;
      const tensor::Shape nothing(shape.size());  // a scalar has its element all the same
      targets.push_back({name, type, shape, {nothing, nothing}, load.unwanted.data()});
    }
    return targets;
  };
  checkpoint::State state;
  load.levels->restore_what_is_there(*load.snapshots, targets_of, state);
  load.levels->keep_only(load.snapshots);
}

/// Collective, unless this process reads alone: all ranks throw if one cannot read.
void read_files(LoadObject& load) {
  if (!load.store) return load.own->read(load.found, load.targets);
  const auto vote = vote_on([&] {
    load.store->store.read(load.found, load.targets);
    return std::string();
  });
  const auto failed = failure_of(load.store->group->all_gather(vote));
  if (failed) throw StorageError(fmt::format("rank {}: {}", failed->rank, failed->message), failed->code);
}

/// Calls body(load) while its family is locked.
template <class Body>
int on_load(const char* function, distdl_load* handle, Body&& body) {
  return guarded(function, [&] {
    const auto load = object_of<LoadObject>(handle, "load");
    const auto lock = load->family->lock();
    body(*load);
  });
}

/// The folder with the checkpoints of a folder that may be a run's.
std::filesystem::path root_in(const std::filesystem::path& folder) {
  std::error_code error;
  const auto inner = folder / "checkpoints";
  return std::filesystem::is_directory(inner, error) ? inner : folder;
}

checkpoint::Summary open_step(const std::filesystem::path& root, std::int64_t step) {
  if (step >= 0) {
    const auto folder = root / fmt::format("step-{:012}", step);
    std::error_code error;
    if (!std::filesystem::exists(folder, error)) fail(DISTDL_NOT_FOUND, "there is no \"{}\"", folder.string());
    return checkpoint::open(folder);
  }
  std::filesystem::path newest;
  try {
    newest = checkpoint::checkpoint_in(root);
  } catch (const StorageError& error) {
    if (error.exit_code() != ExitCode::incomplete) throw;
    throw CallError(DISTDL_NOT_FOUND, error.what());
  }
  return checkpoint::open(newest);
}

}  // namespace
}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

int distdl_load_begin(distdl_store* store, int64_t before, distdl_load** load) {
  return guarded(__func__, [&] {
    clear(load, "load");
    const auto object = object_of<StoreObject>(store, "store");
    use(*object->family, [&] {
      auto made = std::make_shared<LoadObject>(object);
      find_newest(*made, before < 0 ? std::nullopt : std::optional(Step(before)));
      *load = open_handle(std::move(made));
    });
  });
}

int distdl_load_open(const char* folder, int64_t step, distdl_load** load) {
  return guarded(__func__, [&] {
    clear(load, "load");
    const auto root = root_in(checkpoint_folder(folder));
    auto found = open_step(root, step);
    auto made = std::make_shared<LoadObject>(found.folder.parent_path());
    made->found = std::move(found);
    *load = open_handle(std::move(made));
  });
}

int distdl_load_step(distdl_load* load, int64_t* step) {
  return on_load(__func__, load, [&](LoadObject& object) { written(step, "step") = object.found.step.value; });
}

int distdl_load_source(distdl_load* load, const char** source) {
  return on_load(__func__, load, [&](LoadObject& object) {
    written(source, "source") = object.snapshots ? "snapshots" : "the file system";
  });
}

int distdl_load_count(distdl_load* load, size_t* count) {
  return on_load(__func__, load, [&](LoadObject& object) { written(count, "count") = object.found.tensors.size(); });
}

int distdl_load_array(distdl_load* load, size_t number, const char** name, int* type, int* dimensions, int64_t* shape,
                      int capacity) {
  return on_load(__func__, load, [&](LoadObject& object) {
    const auto& arrays = object.found.tensors;
    need(number < arrays.size(), "number is {}, but there are {} arrays", number, arrays.size());
    need(shape != nullptr || capacity <= 0, "shape is null");
    const checkpoint::TensorEntry& array = arrays[number];
    if (name) *name = array.name.c_str();
    if (type) *type = c_type_of(array.dtype);
    if (dimensions) *dimensions = static_cast<int>(array.shape.size());
    const auto shown = std::min(array.shape.size(), static_cast<std::size_t>(std::max(capacity, 0)));
    std::copy_n(array.shape.begin(), shown, shape);
  });
}

int distdl_load_find(distdl_load* load, const char* name, size_t* number) {
  return on_load(__func__, load, [&](LoadObject& object) { written(number, "number") = object.find(name); });
}

int distdl_load_add(distdl_load* load, const char* name, int type, const int64_t* offset, const int64_t* extent,
                    void* data) {
  return on_load(__func__, load, [&](LoadObject& object) {
    const auto& array = object.found.tensors[object.find(name)];
    const auto wanted = data_type(type);
    if (wanted != array.dtype)
      fail(DISTDL_INCOMPATIBLE, "array \"{}\" has elements of type {}, not {}", name, comm::name_of(array.dtype),
           comm::name_of(wanted));
    auto box = box_in(array.shape, offset, extent);
    if (tensor::element_count(box.extent) == 0) return;
    need(data != nullptr, "data is null");
    object.targets.push_back({name, wanted, array.shape, std::move(box), static_cast<std::byte*>(data)});
  });
}

int distdl_load_read(distdl_load* load) {
  return guarded(__func__, [&] {
    const auto object = object_of<LoadObject>(load, "load");
    use(*object->family, [&] {
      struct Done {
        LoadObject& load;
        ~Done() { load.targets.clear(); }
      } const done{*object};
      if (object->snapshots)
        read_snapshots(*object);
      else
        read_files(*object);
    });
  });
}

int distdl_load_close(distdl_load* load) {
  return guarded(__func__, [&] {
    auto object = object_of<LoadObject>(load, "load");
    const auto family = object->family;
    const auto lock = family->lock();
    close_handle(load);
    object.reset();
  });
}
