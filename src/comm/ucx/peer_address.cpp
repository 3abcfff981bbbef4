// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <span>

#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/process.hpp>
#include <distdl/comm/ucx/peer_address.hpp>

namespace distdl::comm {
namespace {

constexpr std::string_view kAddressMagic = "distdl-card-3";

/// The name space, such as "pid:[4026531836]"; empty if /proc does not show it.
std::string name_space(const char* kind) {
  std::error_code error;
  return std::filesystem::read_symlink(std::filesystem::path("/proc/self/ns") / kind, error).string();
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

/// Each mount of a tmpfs has a device number of its own, so equal numbers on one kernel mean the same /dev/shm.
std::string shared_memory_device() {
  struct stat info {};
  return ::stat("/dev/shm", &info) == 0 ? std::to_string(info.st_dev) : "none";
}

void put(std::string& bytes, const std::string& field) {
  const auto length = static_cast<std::uint32_t>(field.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += field;
}

template <class Address>
auto fields_of(Address& address) {
  return std::array{&address.secret,          &address.host,         &address.memory, &address.process_space,
                    &address.network_address, &address.full_address, &address.segment};
}

class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  std::string take(std::size_t count) {
    require<CommError>(count <= rest_.size(), "a peer's address is {} bytes too short", count - rest_.size());
    std::string bytes(rest_.substr(0, count));
    rest_.remove_prefix(count);
    return bytes;
  }
  template <class Number>
  Number number() {
    Number value;
    take(sizeof value).copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  std::string field() { return take(number<std::uint32_t>()); }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace

PeerAddress describe_this_process(std::uint32_t generation) {
  PeerAddress address;
  address.generation = generation;
  address.pid = ::getpid();
  address.host = host_name();
  address.memory = fmt::format("{} {} {}", boot_id(), name_space("ipc"), shared_memory_device());
  address.process_space = fmt::format("{} {}", boot_id(), name_space("pid"));
  return address;
}

std::string encode(const PeerAddress& address) {
  std::string bytes(kAddressMagic);
  bytes.append(reinterpret_cast<const char*>(&address.generation), sizeof address.generation);
  bytes.append(reinterpret_cast<const char*>(&address.pid), sizeof address.pid);
  for (const auto* field : fields_of(address)) put(bytes, *field);
  return with_address_checksum(std::move(bytes));
}

std::string with_address_checksum(std::string bytes) {
  const std::uint32_t checksum = crc32c(std::as_bytes(std::span(bytes)));
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return bytes;
}

PeerAddress decode_peer_address(const std::string& sealed) {
  require<CommError>(sealed.starts_with(kAddressMagic),
                     "a peer's address does not start with \"{}\": another version of distdl?", kAddressMagic);
  const std::string bytes = sealed.substr(0, sealed.size() - sizeof(std::uint32_t));
  require<CommError>(bytes.size() >= kAddressMagic.size() && with_address_checksum(bytes) == sealed,
                     "a peer's address of {} bytes has a wrong checksum: it was damaged on the way", sealed.size());
  Reader reader(bytes);
  reader.take(kAddressMagic.size());
  PeerAddress address;
  address.generation = reader.number<std::uint32_t>();
  address.pid = reader.number<std::int32_t>();
  for (auto* field : fields_of(address)) *field = reader.field();
  require<CommError>(reader.at_end(), "a peer's address is longer than expected: another version of distdl?");
  return address;
}

}  // namespace distdl::comm
