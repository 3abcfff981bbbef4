// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <condition_variable>
#include <future>
#include <mutex>

#include "tests/checkpoint/commit/failing_file_system.hpp"
#include "tests/checkpoint/proof/proofs.hpp"
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint::proof {
namespace {

std::string run_name() {
  return "snapshots" + std::to_string(::getpid());
}

/// A tensor of floats that all have one value.
struct Vector {
  explicit Vector(float value, std::size_t count = 500'000) : memory(count, value) {}
  std::vector<float> memory;
  Slice slice() const {
    auto count = static_cast<std::int64_t>(memory.size());
    return {"x", tensor::DataType::float32, {count}, {{0}, {count}}, reinterpret_cast<const std::byte*>(memory.data()),
            {}};
  }
};

/// The value that all of x has in this checkpoint, or not a number.
float value_in(const Store& store, const Summary& checkpoint, std::size_t count = 500'000) {
  Vector found(0, count);
  auto size = static_cast<std::int64_t>(count);
  Target target{
      "x", tensor::DataType::float32, {size}, {{0}, {size}}, reinterpret_cast<std::byte*>(found.memory.data())};
  store.read(checkpoint, std::span(&target, 1));
  for (float value : found.memory)
    if (value != found.memory[0]) return std::nanf("");
  return found.memory[0];
}

/// One rank that trains with a Saver.
struct Trainer {
  Trainer(const std::filesystem::path& root, const char* mode, FileSystem& files = real_file_system())
      : Trainer({root, {.keep = 2, .timeout_seconds = 20, .mode = mode}, files},
                std::make_unique<SingleProcessGroup>()) {}
  Trainer(Store where, std::unique_ptr<Group> writing, Saver::Setup setup = {run_name(), true})
      : store(std::move(where)) {
    store.take(alone, owner_called("trainer"));
    saver.emplace(store, alone, std::move(writing), std::move(setup));
  }
  ~Trainer() {
    saver.reset();
    for (const std::string& name : buffers_of(run_name())) remove_orphan(name);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  bool save(std::int64_t step, const Vector& vector) {
    Slice slice = vector.slice();
    return saver->save(Step(step), std::span(&slice, 1), {});
  }

  SingleProcessGroup alone;
  Store store;
  std::optional<Saver> saver;
};

ExitCode code_of(const std::function<void()>& work) try {
  work();
  return ExitCode::ok;
} catch (const Error& error) {
  return error.exit_code();
}

/// A buffer whose copy is broken off counts as empty, not as what it held before.
std::string broken_off_copy() {
  Vector good(1), bad(2);
  bad.memory.back() = std::nanf("");
  Slice slice = good.slice(), other = bad.slice();
  SnapshotMemory buffer = SnapshotMemory::create_private(buffer_bytes(std::span(&slice, 1), {}));
  fill_buffer(buffer.writable(), {"run", 0, 1, Step(1), 1}, std::span(&slice, 1), {});
  if (code_of([&] {
        fill_buffer(buffer.writable(), {"run", 0, 1, Step(2), 2}, std::span(&other, 1), {}, {1, true});
      }) == ExitCode::ok)
    return "a value that is not a number was copied";
  return code_of([&] { open_snapshot(buffer.bytes()); }) == ExitCode::incomplete
             ? ""
             : "half a copy does not count as empty";
}

/// Any bit of a buffer's first page or of its tensors changes: it is refused, or the same as before.
std::string damaged_buffer() {
  Vector vector(1, 5000);
  Slice slice = vector.slice();
  SnapshotMemory buffer = SnapshotMemory::create_private(buffer_bytes(std::span(&slice, 1), {}));
  const SnapshotLabel label{"run", 0, 1, Step(1), 1};
  fill_buffer(buffer.writable(), label, std::span(&slice, 1), {});
  for (std::size_t at = 0; at < buffer.bytes().size(); at += at < 160 ? 1 : 997) {
    std::byte& byte = buffer.writable()[at];
    byte ^= std::byte{1};
    ExitCode code = code_of([&] {
      Snapshot snapshot = open_snapshot(buffer.bytes());
      verify(snapshot);
      bool same = snapshot.label == label && snapshot.slices.size() == 1 && snapshot.slices[0].name == "x" &&
                  std::memcmp(snapshot.slices[0].bytes, vector.memory.data(), 20'000) == 0;
      require<InternalError>(same, "it is taken for another one");
    });
    byte ^= std::byte{1};
    if (code == ExitCode::internal) return fmt::format("byte {} of a buffer changed and was not missed", at);
  }
  return "";
}

/// Memory changes between the copy and the disk: the checksums of the copy go to the disk, so that it is seen.
std::string damage_on_the_way_to_disk() {
  TemporaryFolder root;
  Trainer* trainer = nullptr;
  FailingFileSystem files({.fault = FailingFileSystem::Fault::call,
                           .at = -1,
                           .call =
                               [&] {
                                 std::string path = "/dev/shm/" + trainer->saver->newest_buffer();
                                 int buffer = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
                                 float wrong = 3;
                                 if (::pwrite(buffer, &wrong, sizeof(wrong), 1 << 20) != sizeof(wrong)) ::abort();
                                 ::close(buffer);
                               },
                           .only = FailingFileSystem::Call::name});
  Trainer made(root.path(), "async", files);
  trainer = &made;
  files.strike_in(1);
  made.save(1, Vector(1));
  made.saver->wait();
  if (!files.struck()) return "nothing was changed";
  auto found = made.store.newest_valid(made.alone);
  return !found || value_in(made.store, *found) == 1 ? "" : "a byte that changed in the buffer was restored";
}

/// Training changes its tensors as soon as it may.
std::string changed_right_after(const char* mode) {
  TemporaryFolder root;
  Trainer trainer(root.path(), mode);
  for (int step = 1; step <= 5; ++step) {
    Vector vector(static_cast<float>(step), 4'000'000);
    trainer.save(step, vector);
    trainer.saver->fence();
    std::fill(vector.memory.begin(), vector.memory.end(), -1.0f);
    trainer.saver->wait();
    auto found = trainer.store.newest_valid(trainer.alone);
    if (!found || found->step != Step(step)) return fmt::format("step {} is not found", step);
    if (value_in(trainer.store, *found, vector.memory.size()) != static_cast<float>(step))
      return "what training wrote after save() is in the checkpoint";
  }
  return "";
}

/// A group of one whose first exchange takes long.
class Delayed final : public Group {
 public:
  explicit Delayed(std::future<void> over) : over_(std::move(over)) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& mine) override {
    over_.wait_for(std::chrono::seconds(20));
    return {mine};
  }

 private:
  std::future<void> over_;
};

/// A lazy copy that is not even begun: its fence may only give up. How quick the copying thread is, does not matter.
std::string fence_before_the_copy() {
  TemporaryFolder root;
  std::promise<void> over;
  Levels::Setup levels;  // of which the writing thread tells the others first
  levels.run = levels.memory = run_name();
  levels.place = {"n0", ""};
  Vector vector(1);
  Trainer trainer({root.path(), {.keep = 2, .timeout_seconds = 0.05, .mode = "lazy"}},
                  std::make_unique<Delayed>(over.get_future()), {run_name(), true, false, levels});
  const ExitCode code = code_of([&] {
    trainer.save(1, vector);
    trainer.saver->fence();
  });
  over.set_value();
  return code == ExitCode::storage ? "" : "training went on before its tensors were copied";
}

/// While a snapshot cannot be taken, the one before stays readable.
std::string failed_snapshot() {
  TemporaryFolder root;
  Trainer trainer(root.path(), "async");
  trainer.save(1, Vector(1));
  trainer.saver->wait();
  Vector bad(std::nanf(""));
  if (code_of([&] { trainer.save(2, bad); }) != ExitCode::config) return "values that are not finite were saved";
  SnapshotMemory buffer = SnapshotMemory::open(trainer.saver->newest_buffer());
  return open_snapshot(buffer.bytes()).label.step == Step(1) ? "" : "the newest buffer is not the one before";
}

/// Lets writes pass only when it is told to.
class Gate final : public FileSystem {
 public:
  ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
    lock.unlock();
    return FileSystem::pwrite(descriptor, data, bytes, offset);
  }
  void set(bool open) {
    std::lock_guard lock(mutex_);
    open_ = open;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = true;
};

/// A disk that is slower than training: what save() says it saves is saved, the rest is skipped.
std::string slow_disk() {
  TemporaryFolder root;
  Gate gate;
  Trainer trainer(root.path(), "async", gate);
  gate.set(false);
  struct Opener {
    Gate& gate;
    ~Opener() { gate.set(true); }  // else the trainer could not end
  } opener{gate};
  std::vector<std::int64_t> promised;
  for (int step : {1, 2, 3})
    if (trainer.save(step, Vector(static_cast<float>(step)))) promised.push_back(step);
  gate.set(true);
  trainer.saver->wait();
  for (std::int64_t step : promised) {
    auto checkpoint = root.path() / step_folder_name(Step(step));
    if (!std::filesystem::exists(checkpoint)) return fmt::format("step {} was to be saved, and is not there", step);
    if (value_in(trainer.store, open(checkpoint)) != static_cast<float>(step))
      return fmt::format("step {} holds another step's values", step);
  }
  return "";
}

/// Another run has taken the folder: this one ends at its next save.
std::string superseded() {
  TemporaryFolder root;
  Trainer trainer(root.path(), "async");
  trainer.save(1, Vector(1));
  trainer.saver->wait();
  SingleProcessGroup alone;
  Store successor(root.path(), {.keep = 2});
  successor.take(alone, owner_called("successor"));
  trainer.save(2, Vector(2));
  while (trainer.saver->is_busy()) ::usleep(1000);
  if (code_of([&] { trainer.save(3, Vector(3)); }) != ExitCode::superseded) return "a run goes on that was superseded";
  auto found = successor.newest_valid(alone);
  return found && found->step == Step(1) ? "" : "a superseded run added a checkpoint";
}

/// A tag that is set while its checkpoint is being deleted keeps it, or is refused. `about`: which operations count,
/// see FailingFileSystem.
std::string tag_in_time(int operation, const std::string& about, bool& done) {
  TemporaryFolder root;
  bool tagged = false;
  FailingFileSystem files({.fault = FailingFileSystem::Fault::call,
                           .at = -1,
                           .call =
                               [&] {
                                 try {
                                   add_tag(real_file_system(), root.path(), Step(1), "mine", false);
                                   tagged = true;
                                 } catch (const StorageError&) {  // it was quicker
                                 }
                               },
                           .only = FailingFileSystem::Call::name,
                           .about = about});
  {
    SingleProcessGroup alone;
    Store store(root.path(), {.keep = 2}, files);
    store.take(alone, owner_called("run"));
    for (std::int64_t step : {1, 2, 3}) {
      if (step == 3) files.strike_in(operation);
      store.save(alone, Step(step), share_of(make_sample(1), 0, 1).slices, sample_state());
    }
  }
  done = !files.struck();
  if (!tagged) return "";
  auto folder = root.path() / step_folder_name(Step(1));
  return std::filesystem::exists(folder) && verify(folder).empty() ? "" : "a tagged checkpoint is gone";
}
}  // namespace

ProofResult prove_snapshots(const Effort& effort) {
  ProofResult verdict;
  auto enough = [&] { return effort.stop_at_first && !verdict.broken.empty(); };
  const std::pair<const char*, std::function<std::string()>> proofs[] = {
      {"a copy that is broken off", &broken_off_copy},
      {"a damaged buffer", &damaged_buffer},
      {"damage on the way to the disk", &damage_on_the_way_to_disk},
      {"a lazy save's fence before the copy", &fence_before_the_copy},
      {"changed right after an asynchronous save", [] { return changed_right_after("async"); }},
      {"changed right after a lazy save's fence", [] { return changed_right_after("lazy"); }},
      {"a snapshot that fails", &failed_snapshot},
      {"a slow disk", &slow_disk},
      {"another run takes the folder", &superseded}};
  for (const auto& [name, proof] : proofs) {
    if (enough()) return verdict;
    ++verdict.cases;
    try {
      verdict.add(proof(), name);
    } catch (const std::exception& error) {
      verdict.add(error.what(), name);
    }
  }
  // The operations of all steps are those of two threads, whose order differs. Those on the folder that is deleted have
  // one order, so that each of them is met.
  for (const auto& about : {std::string(), step_folder_name(Step(1))}) {
    bool done = false;
    for (int operation = 0; !done && !enough(); ++operation, ++verdict.cases)
      verdict.add(tag_in_time(operation, about, done), fmt::format("a tag before operation {} {}", operation, about));
  }
  return verdict;
}

}  // namespace distdl::checkpoint::proof
