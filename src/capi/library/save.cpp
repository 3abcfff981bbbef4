// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <vector>

#include <distdl/base/checksum.hpp>
#include <distdl/capi/library/arguments.hpp>
#include <distdl/capi/library/store.hpp>

namespace distdl::capi {
namespace {

constexpr std::int64_t kSmallArray = 1 << 16;  ///< elements; below, an array is not worth cutting

/// A checkpoint that is being composed. Its members are used while the family of the store is locked.
class SaveObject {
 public:
  using Handle = distdl_save;
  static constexpr Kind kKind = Kind::save;

  SaveObject(std::shared_ptr<StoreObject> of, Step at) : store(std::move(of)), step(at), writer(store->writer()) {
    ++store->parts;
  }
  ~SaveObject() { --store->parts; }
  SaveObject(const SaveObject&) = delete;
  SaveObject& operator=(const SaveObject&) = delete;

  const std::shared_ptr<StoreObject> store;
  const Step step;
  const std::pair<int, int> writer;
  std::vector<checkpoint::Slice> slices;
};

/// The box of an array of all ranks that this one writes, if any: some rows of a large one, all or nothing of a small
/// one. The choice does not depend on the order in which arrays are added.
std::optional<tensor::Box> share_of(const tensor::Shape& shape, const std::string& name, std::pair<int, int> writer) {
  const auto [index, writers] = writer;
  if (index < 0) return std::nullopt;
  auto box = tensor::whole(shape);
  if (shape.empty() || tensor::element_count(shape) < kSmallArray || shape[0] < writers) {
    const auto number = crc32c(std::as_bytes(std::span(name))) % static_cast<unsigned>(writers);
    return number == static_cast<unsigned>(index) ? std::optional(box) : std::nullopt;
  }
  box.offset[0] = shape[0] * index / writers;
  box.extent[0] = shape[0] * (index + 1) / writers - box.offset[0];
  return box;
}

/// Calls body(save) while the family of its store is locked.
template <class Body>
int on_save(const char* function, distdl_save* handle, Body&& body) {
  return guarded(function, [&] {
    const auto save = object_of<SaveObject>(handle, "save");
    const auto lock = save->store->family->lock();
    body(*save);
  });
}

/// Checks what all kinds of arrays have.
tensor::Shape checked_shape(const char* name, int type, int dimensions, const std::int64_t* shape) {
  need(name != nullptr && *name != '\0', "name is {}", name ? "empty" : "null");
  auto extents = shape_of(dimensions, shape, "shape");
  const auto elements = tensor::element_count(extents);
  need(elements <= std::numeric_limits<std::int64_t>::max() / 16, "shape: array \"{}\" is too large", name);
  data_type(type);
  return extents;
}

void add_share(SaveObject& save, const char* name, tensor::DataType type, const tensor::Shape& shape,
               const void* data) {
  need(data != nullptr || tensor::element_count(shape) == 0, "data is null");
  const auto box = share_of(shape, name, save.writer);
  if (!box) return;
  const std::int64_t row = shape.empty() || shape[0] == 0 ? 1 : tensor::element_count(shape) / shape[0];
  const std::int64_t before = shape.empty() ? 0 : box->offset[0] * row;
  const auto* const begin = static_cast<const std::byte*>(data) + static_cast<std::size_t>(before) * size_of(type);
  save.slices.push_back({name, type, shape, *box, begin});
}

/// Collective.
void commit(StoreObject& store, Step step, std::span<const checkpoint::Slice> slices, int how) {
  const checkpoint::Options& options = store.store.options();
  checkpoint::Saver& saver = store.saver_for(slices);
  const checkpoint::Destination destination{how != DISTDL_SNAPSHOT, due_levels(options, step)};
  if (how == DISTDL_NOW) {
    try {
      saver.wait();
    } catch (const StorageError& error) {  // of the save before, whose outcome is told
      if (error.exit_code() != ExitCode::storage) throw;
    }
  }
  if (!saver.save(step, slices, {}, destination))
    fail(DISTDL_BUSY, "step {} is left out, because the save before is still being written", step);
  saver.fence();  // what the caller has passed may change from now on, also in mode "lazy"
  if (how == DISTDL_NOW) saver.wait();
}

}  // namespace
}  // namespace distdl::capi

using namespace distdl;        // NOLINT(google-build-using-namespace)
using namespace distdl::capi;  // NOLINT(google-build-using-namespace)

int distdl_save_begin(distdl_store* store, int64_t step, distdl_save** save) {
  return guarded(__func__, [&] {
    clear(save, "save");
    const auto object = object_of<StoreObject>(store, "store");
    need(step >= 0, "step is {}", step);
    use(*object->family, [&] { *save = open_handle(std::make_shared<SaveObject>(object, Step(step))); });
  });
}

int distdl_save_add(distdl_save* save, const char* name, int type, int dimensions, const int64_t* shape,
                    const int64_t* offset, const int64_t* extent, const void* data) {
  return on_save(__func__, save, [&](SaveObject& object) {
    const auto whole = checked_shape(name, type, dimensions, shape);
    auto box = box_in(whole, offset, extent);
    const bool is_empty = tensor::element_count(box.extent) == 0;
    if (is_empty && tensor::element_count(whole) > 0) return;
    need(data != nullptr || is_empty, "data is null");
    object.slices.push_back({name, data_type(type), whole, std::move(box), static_cast<const std::byte*>(data)});
  });
}

int distdl_save_add_replicated(distdl_save* save, const char* name, int type, int dimensions, const int64_t* shape,
                               const void* data) {
  return on_save(__func__, save, [&](SaveObject& object) {
    add_share(object, name, data_type(type), checked_shape(name, type, dimensions, shape), data);
  });
}

int distdl_save_add_bytes(distdl_save* save, const char* name, const void* bytes, size_t count) {
  return on_save(__func__, save, [&](SaveObject& object) {
    need(count <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()), "count is too large");
    const auto extent = static_cast<std::int64_t>(count);
    add_share(object, name, tensor::DataType::byte, checked_shape(name, DISTDL_U8, 1, &extent), bytes);
  });
}

int distdl_save_commit(distdl_save* save, int how) {
  return guarded(__func__, [&] {
    need(how == DISTDL_NOW || how == DISTDL_BESIDE || how == DISTDL_SNAPSHOT, "how is {}", how);
    auto object = object_of<SaveObject>(save, "save");
    const auto store = object->store;
    need(how != DISTDL_SNAPSHOT || has_levels(store->store.options()),
         "how is DISTDL_SNAPSHOT, but the options of the store ask for no snapshots");
    const Step step = object->step;
    const auto lock = store->family->lock();
    const auto slices = std::move(object->slices);
    close_handle(save);
    object.reset();
    use(*store->family, lock, [&] { store->saving([&] { commit(*store, step, slices, how); }); });
  });
}

int distdl_save_prepare(distdl_save* save) {
  return guarded(__func__, [&] {
    auto object = object_of<SaveObject>(save, "save");
    const auto store = object->store;
    const auto lock = store->family->lock();
    const auto slices = std::move(object->slices);
    close_handle(save);
    object.reset();
    use(*store->family, lock, [&] { store->saver_for(slices); });
  });
}

int distdl_save_discard(distdl_save* save) {
  return guarded(__func__, [&] {
    auto object = object_of<SaveObject>(save, "save");
    const auto family = object->store->family;
    const auto lock = family->lock();
    close_handle(save);
    object.reset();
  });
}
