// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/hdf5_elements.hpp>
#include <distdl/checkpoint/format/hdf5_filters.hpp>
#include <distdl/checkpoint/format/hdf5_structure.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::checkpoint {
namespace {
using hdf5::Attribute;
using hdf5::check;
using hdf5::Dataset;
using hdf5::File;
using hdf5::Properties;
using hdf5::Space;
using hdf5::Type;

constexpr std::size_t kTensorsPerSecond = 100;  // at least, beyond the time given
constexpr std::size_t kMostProblems = 20;
constexpr int kShortage = static_cast<int>(ExitCode::config);  // exit code of the process that checks a file

/// A problem of the file that is being checked.
class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
void demand_structure(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw Problem(fmt::format(message, std::forward<Args>(args)...));
}

struct ExpectedDataset {
  const StoredTensor* tensor;
  const StoredBox* box;
};

/// The datasets that the manifest names in one file, by path.
std::map<std::string, ExpectedDataset> expected_datasets(const Manifest& manifest, std::size_t index) {
  std::map<std::string, ExpectedDataset> expected;
  for (const StoredTensor& stored : manifest.tensors) {
    int number = 0;
    for (const StoredBox& box : stored.boxes)
      if (box.file == index) expected[fmt::format("t/{}/{}", stored.entry.name, number++)] = {&stored, &box};
  }
  return expected;
}

tensor::Shape read_numbers(hid_t object, const char* name) {
  Attribute attribute(check(H5Aopen(object, name, H5P_DEFAULT), "open attribute", name));
  Space space(check(H5Aget_space(attribute.get()), "look at attribute", name));
  hssize_t count = H5Sget_simple_extent_npoints(space.get());
  demand_structure(count >= 0 && count <= 32, "attribute {} has {} numbers", name, count);
  tensor::Shape numbers(static_cast<std::size_t>(count));
  if (count > 0) check(H5Aread(attribute.get(), H5T_NATIVE_INT64, numbers.data()), "read attribute", name);
  return numbers;
}

void check_contiguous(hid_t dataset) {
  Properties creation(check(H5Dget_create_plist(dataset), "look at", "a dataset"));
  demand_structure(H5Pget_layout(creation.get()) == H5D_CONTIGUOUS, "it is not contiguous");
  demand_structure(H5Pget_external_count(creation.get()) == 0, "its bytes are in another file");
  demand_structure(H5Pget_nfilters(creation.get()) == 0, "it has filters");
}

void check_chunks(hid_t dataset, const ExpectedDataset& expected) {
  const StoredBox& box = *expected.box;
  Properties creation(check(H5Dget_create_plist(dataset), "look at", "a dataset"));
  demand_structure(H5Pget_layout(creation.get()) == H5D_CHUNKED, "it is not chunked");
  demand_structure(has_filters(creation.get(), box.codec), "its filters are not {}", name_of(box.codec));
  hsize_t elements = 0, chunks = 0;
  std::size_t whole = chunk_bytes(*expected.tensor, box);
  check(H5Pget_chunk(creation.get(), 1, &elements), "look at", "chunks");
  demand_structure(elements * tensor::size_of(expected.tensor->entry.dtype) == whole, "its chunks have {} elements",
                   elements);
  Space all(check(H5Dget_space(dataset), "look at", "a dataset"));
  check(H5Dget_num_chunks(dataset, all.get(), &chunks), "count", "chunks");
  demand_structure(chunks == box.chunks.size(), "it has {} chunks, but the manifest says {}", chunks,
                   box.chunks.size());
  for (hsize_t i = 0; i < chunks; ++i) {
    hsize_t first = i * elements, bytes = 0;
    unsigned skipped = 0;
    haddr_t offset = HADDR_UNDEF;
    check(H5Dget_chunk_info_by_coord(dataset, &first, &skipped, &offset, &bytes), "look at", "a chunk");
    const StoredChunk& chunk = box.chunks[i];
    demand_structure(offset == chunk.offset && bytes == chunk.bytes,
                     "chunk {} is {} bytes at {}, but the manifest says {} at {}", i, bytes, offset, chunk.bytes,
                     chunk.offset);
    demand_structure(skipped == (bytes == whole ? all_filters(box.codec) : 0), "chunk {} skips filters {:b}", i,
                     skipped);
  }
  demand_structure(read_numbers(dataset, "extent") == box.box.extent, "its attribute extent is wrong");
}

void check_dataset(hid_t dataset, const ExpectedDataset& expected) {
  bool chunked = !expected.box->chunks.empty();
  if (chunked)
    check_chunks(dataset, expected);
  else
    check_contiguous(dataset);
  Type type(check(H5Dget_type(dataset), "look at", "a dataset"));
  demand_structure(H5Tequal(type.get(), element_type(expected.tensor->entry.dtype).get()) > 0, "it is not of type {}",
                   tensor::code_of(expected.tensor->entry.dtype));
  Space space(check(H5Dget_space(dataset), "look at", "a dataset"));
  tensor::Shape extent = expected.box->box.extent;
  if (chunked) extent = {tensor::element_count(extent)};
  demand_structure(H5Sextent_equal(space.get(), space_of(extent).get()) > 0, "its extent is not {}",
                   tensor::to_string(extent));
  haddr_t offset = chunked ? expected.box->offset : H5Dget_offset(dataset);
  demand_structure(offset == expected.box->offset, "it is at byte {}, but the manifest says {}", offset,
                   expected.box->offset);
  demand_structure(H5Aget_num_attrs(dataset) == (chunked ? 3 : 2), "it has other attributes than shape and offset");
  demand_structure(read_numbers(dataset, "shape") == expected.tensor->entry.shape, "its attribute shape is wrong");
  demand_structure(read_numbers(dataset, "offset") == expected.box->box.offset, "its attribute offset is wrong");
}

struct Walk {
  int pipe;  ///< to the process that asked
  std::map<std::string, ExpectedDataset> expected;
  std::set<std::string> state;
  std::vector<std::string> problems;
};

void check_object(Walk& walk, hid_t group, const std::string& path, H5L_type_t link) {
  demand_structure(link == H5L_TYPE_HARD, "it is a link");
  hdf5::Object object(check(H5Oopen(group, path.c_str(), H5P_DEFAULT), "open", path));
  H5I_type_t kind = H5Iget_type(object.get());
  if (kind == H5I_GROUP) return demand_structure(H5Aget_num_attrs(object.get()) == 0, "it has attributes");
  demand_structure(kind == H5I_DATASET, "it is neither a group nor a dataset");
  if (auto found = walk.expected.find(path); found != walk.expected.end()) {
    check_dataset(object.get(), found->second);
    walk.expected.erase(found);
  } else {
    demand_structure(walk.state.erase(path) == 1, "the manifest does not list it");
    check_contiguous(object.get());
    demand_structure(H5Aget_num_attrs(object.get()) == 0, "it has attributes");
  }
}

/// Ends this process, which is there for one file only, if the error is a shortage, and writes into the pipe what is
/// short. HDF5 has called, so no exception may pass through.
void leave_on_shortage(int pipe, const std::exception& error) {
  if (!is_shortage(error)) return;
  const bool is_known = dynamic_cast<const Error*>(&error) != nullptr;  // others' messages do not name the limit
  const std::string_view what = is_known ? error.what() : "";
  [[maybe_unused]] const auto written = ::write(pipe, what.data(), what.size());
  ::_exit(kShortage);
}

herr_t visit(hid_t group, const char* name, const H5L_info_t* info, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  try {
    check_object(walk, group, name, info->type);
  } catch (const std::exception& error) {
    leave_on_shortage(walk.pipe, error);
    walk.problems.push_back(fmt::format("/{}: {}", name, error.what()));
  }
  return walk.problems.size() < kMostProblems ? 0 : 1;  // 1: enough
}

/// In this process, under a Lock. State lies in one of the files, in the first that has data; elsewhere there is none.
std::vector<std::string> look(int pipe, const std::filesystem::path& path, const Manifest& manifest,
                              std::size_t index) {
  Walk walk{pipe, {}, {}, {}};
  walk.expected = expected_datasets(manifest, index);
  if (index == 0)
    for (const auto& [key, value] : manifest.state) walk.state.insert("state/" + key);
  try {
    File file(check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open", path.string()));
    demand_structure(read_numbers(file.get(), "step") == tensor::Shape{manifest.step.value},
                     "its attribute step is wrong");
    hdf5::Object root(check(H5Oopen(file.get(), "/", H5P_DEFAULT), "open", "the root group"));
    demand_structure(H5Aget_num_attrs(root.get()) == 1, "it has other attributes than step");
    check(H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, &visit, &walk), "walk through", path.string());
  } catch (const std::exception& error) {
    leave_on_shortage(pipe, error);
    walk.problems.emplace_back(error.what());
  }
  for (const auto& [name, dataset] : walk.expected)
    if (walk.problems.size() < kMostProblems) walk.problems.push_back(fmt::format("/{} is missing or wrong", name));
  for (const auto& name : walk.state)
    if (walk.problems.size() < kMostProblems) walk.problems.push_back(fmt::format("/{} is missing", name));
  return walk.problems;
}

[[noreturn]] void answer(int pipe, const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += problem + '\n';
  bool whole = text.empty() || ::write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::_exit(whole ? 0 : 1);
}

std::string read_all(int pipe) {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(pipe, buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

/// No other thread is within HDF5 at the fork, so that its own locks are free in the child.
template <class Body>
pid_t fork_locked(const Body& body) {
  hdf5::Lock lock;
  pid_t child = ::fork();
  if (child < 0)
    throw ResourceError(fmt::format("cannot start a process: {}; {}", errno_text(errno), process_limits()));
  if (child == 0) body();
  return child;
}
}  // namespace

std::vector<std::string> structure_problems(const std::filesystem::path& folder, const Manifest& manifest,
                                            std::size_t index, std::chrono::seconds patience) {
  std::filesystem::path path = folder / manifest.files[index].name;
  const auto seconds =
      static_cast<unsigned>(patience.count()) + static_cast<unsigned>(manifest.tensors.size() / kTensorsPerSecond);
  int ends[2];
  require_call<StorageError>(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe");
  FileDescriptor from(ends[0]), to(ends[1]);
  pid_t child = fork_locked([&] {
    ::alarm(seconds);
    try {
      answer(to.get(), look(to.get(), path, manifest, index));
    } catch (const std::exception& error) {
      leave_on_shortage(to.get(), error);
      ::_exit(1);
    }
  });
  to.reset();
  const std::string text = read_all(from.get());
  std::vector<std::string> problems = lines_of(text);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  require<StorageError>(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM,
                        "HDF5 did not finish reading \"{}\" within {} s: its storage is slow or hangs; try again",
                        path.string(), seconds);
  const bool is_short = WIFEXITED(status) ? WEXITSTATUS(status) == kShortage : WTERMSIG(status) == SIGKILL;
  if (is_short)  // the kernel sends SIGKILL for lack of memory
    throw ResourceError(fmt::format("cannot read \"{}\" with HDF5: {}", path.string(),
                                    text.empty() || WIFSIGNALED(status) ? errno_text(ENOMEM) : text));
  if (WIFSIGNALED(status))
    problems.push_back(fmt::format("HDF5 cannot read it: its process was ended by signal {}", WTERMSIG(status)));
  else if (WEXITSTATUS(status) != 0)
    problems.emplace_back("HDF5 cannot read it");
  return problems;
}

}  // namespace distdl::checkpoint
