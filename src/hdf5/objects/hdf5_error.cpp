// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string_view>

#include <sys/mman.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/hdf5/objects/hdf5_error.hpp>

namespace distdl::hdf5 {
namespace {
struct Reason {
  std::string text;
  std::optional<int> shortage;  ///< errno
};

/// HDF5 puts errno into the text of its innermost entry: "..., errno = 24, ...".
std::optional<int> shortage_in(std::string_view text) {
  constexpr std::string_view kErrno = "errno = ";
  const auto at = text.find(kErrno);
  int number = 0;
  if (at != std::string_view::npos)
    std::from_chars(text.data() + at + kErrno.size(), text.data() + text.size(), number);
  return is_shortage(number) ? std::optional(number) : std::nullopt;
}

/// HDF5 takes sizes from the file: for a damaged one it may ask for more than any machine has.
bool is_short_of_memory() {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // more than HDF5 needs for any file of distdl
  void* const probe =
      ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return true;
  ::munmap(probe, kMost);
  return false;
}

herr_t note(unsigned depth, const H5E_error2_t* error, void* data) {
  auto& reason = *static_cast<Reason*>(data);
  if (depth == 0 && error->desc) reason.text = error->desc;
  if (error->maj_num == H5E_RESOURCE && is_short_of_memory()) reason.shortage = ENOMEM;
  if (const auto number = shortage_in(error->desc ? error->desc : "")) reason.shortage = number;
  return 0;
}

}  // namespace

std::string failure_reason() {
  assert(Lock::is_held());
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, &note, &reason);
  H5Eclear2(H5E_DEFAULT);
  if (reason.text.empty()) reason.text = "the reason is unknown";
  if (!reason.shortage) return reason.text;
  throw ResourceError(fmt::format("HDF5 cannot work: {} ({})", errno_text(*reason.shortage), reason.text));
}

std::string file_of(hid_t object) {
  assert(Lock::is_held());
  std::array<char, 4096> name{};
  return H5Fget_name(object, name.data(), name.size()) > 0 ? std::string(name.data()) : "a file";
}

std::string name_of(hid_t object) {
  assert(Lock::is_held());
  std::array<char, 1024> name{};
  return H5Iget_name(object, name.data(), name.size()) > 0 ? std::string(name.data()) : "an object";
}

void fail(const std::string& purpose, const std::string& object) {
  throw StorageError(fmt::format("cannot {} \"{}\" (HDF5: {})", purpose, object, failure_reason()));
}

}  // namespace distdl::hdf5
