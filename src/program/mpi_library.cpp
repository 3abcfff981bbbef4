// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include <elf.h>

#include <distdl/program/mpi_library.hpp>

namespace distdl::program {
namespace {
constexpr std::size_t kMostHeaders = 128, kMostDynamic = 4096, kLongestName = 256;
constexpr std::string_view kMpi = "libmpi";  // libmpi.so, libmpi_mpifh.so, libmpich.so

/// An executable file of ELF with 64 bits, in the order of this machine.
class ElfFile {
 public:
  explicit ElfFile(const std::filesystem::path& file) : file_(file, std::ios::binary) {
    Elf64_Ehdr head{};
    const bool is_elf = read(0, &head, sizeof head) && std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                        head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_phentsize == sizeof(Elf64_Phdr);
    if (!is_elf || head.e_phnum > kMostHeaders) return;
    parts_.resize(head.e_phnum);
    if (!read(head.e_phoff, parts_.data(), parts_.size() * sizeof parts_[0])) parts_.clear();
  }

  /// The names of the libraries that the file itself asks for.
  std::vector<std::string> libraries() {
    const auto entries = dynamic_entries();
    std::vector<std::string> names;
    std::optional<std::uint64_t> texts;
    for (const auto& entry : entries)
      if (entry.d_tag == DT_STRTAB) texts = offset_of(entry.d_un.d_ptr);
    if (!texts) return names;
    for (const auto& entry : entries)
      if (entry.d_tag == DT_NEEDED) names.push_back(text_at(*texts + entry.d_un.d_val));
    return names;
  }

 private:
  bool read(std::uint64_t offset, void* into, std::size_t bytes) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes));
    return file_.gcount() == static_cast<std::streamsize>(bytes);
  }
  std::vector<Elf64_Dyn> dynamic_entries() {
    for (const auto& part : parts_) {
      if (part.p_type != PT_DYNAMIC) continue;
      std::vector<Elf64_Dyn> entries(std::min<std::size_t>(part.p_filesz / sizeof(Elf64_Dyn), kMostDynamic));
      if (read(part.p_offset, entries.data(), entries.size() * sizeof(Elf64_Dyn))) return entries;
    }
    return {};
  }
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const auto& part : parts_)
      if (part.p_type == PT_LOAD && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
        return part.p_offset + (address - part.p_vaddr);
    return std::nullopt;
  }
  std::string text_at(std::uint64_t offset) {
    std::string text(kLongestName, '\0');
    read(offset, text.data(), text.size());  // less at the end of the file
    return text.substr(0, text.find('\0'));
  }

  std::ifstream file_;
  std::vector<Elf64_Phdr> parts_;
};
}  // namespace

std::string mpi_library_of(const std::filesystem::path& program) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(program, error)) return "";
  for (auto& name : ElfFile(program).libraries())
    if (name.starts_with(kMpi)) return std::move(name);
  return "";
}

std::string mpi_library_in(pid_t process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    auto name = line.substr(line.rfind('/') + 1);
    if (line.find('/') != std::string::npos && name.starts_with(kMpi)) return name;
  }
  return "";
}

}  // namespace distdl::program
