// SPDX-License-Identifier: Apache-2.0
// The only file that includes Boost.Log: its headers are expensive.
#include <algorithm>
#include <atomic>

#include <boost/log/attributes/constant.hpp>
#include <boost/log/attributes/function.hpp>
#include <boost/log/attributes/value_extraction.hpp>
#include <boost/log/core.hpp>
#include <boost/log/expressions.hpp>
#include <boost/log/sinks/basic_sink_backend.hpp>
#include <boost/log/sinks/sync_frontend.hpp>
#include <boost/log/sources/record_ostream.hpp>
#include <boost/log/sources/severity_logger.hpp>
#include <boost/log/support/date_time.hpp>
#include <boost/log/utility/setup/common_attributes.hpp>
#include <boost/smart_ptr/make_shared_object.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/regular_file.hpp>

namespace distdl {
namespace {
namespace logging = boost::log;
namespace sinks = boost::log::sinks;
namespace expr = boost::log::expressions;

std::atomic<bool> started{false};
std::atomic<std::int64_t> current_step{-1};
thread_local int thread_rank = -1;

constexpr const char* kNames[] = {"debug", "info", "warning", "error"};

/// One write(2) per record on an O_APPEND descriptor: ranks that share a file never tear each other's lines.
class DescriptorBackend : public sinks::basic_formatted_sink_backend<char, sinks::synchronized_feeding> {
 public:
  DescriptorBackend(FileDescriptor descriptor, bool is_console)
      : descriptor_(std::move(descriptor)), console_(descriptor_.get()), is_console_(is_console) {}
  void consume(const logging::record_view&, const string_type& line) {
    if (is_console_) return console_.line(line);  // a rank may have drawn a progress bar there
    const std::string whole = line + '\n';
    std::string_view rest = whole;
    while (!rest.empty()) {
      ssize_t n = ::write(descriptor_.get(), rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // a log that cannot be written must not end the run
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }

 private:
  FileDescriptor descriptor_;
  Console console_;
  bool is_console_;
};

/// Lowest severity that a console shows of a log with this level.
Severity console_level(Severity level) {
  switch (verbosity()) {
    case Verbosity::quiet:
      return std::max(level, Severity::warning);
    case Verbosity::verbose:
      return Severity::debug;
    case Verbosity::normal:
      break;
  }
  return level;
}

/// Lines in a file carry the time.
void add_sink(FileDescriptor descriptor, Severity level, bool is_console) {
  using Sink = sinks::synchronous_sink<DescriptorBackend>;
  auto sink = boost::make_shared<Sink>(boost::make_shared<DescriptorBackend>(std::move(descriptor), is_console));
  sink->set_filter(expr::attr<Severity>("Severity") >= level);
  sink->set_formatter([is_console](const logging::record_view& record, logging::formatting_ostream& out) {
    auto severity = logging::extract<Severity>("Severity", record);
    auto host = logging::extract<std::string>("Host", record);
    auto rank = logging::extract<int>("Rank", record);
    auto step = logging::extract<std::int64_t>("Step", record);
    if (!is_console) {
      auto time = logging::extract<boost::posix_time::ptime>("TimeStamp", record);
      if (time) out << boost::posix_time::to_iso_extended_string(*time) << ' ';
    }
    out << (severity ? kNames[static_cast<int>(*severity)] : "info");
    if (host && !host->empty()) out << " host=" << printable(*host);
    if (rank && *rank >= 0) out << " rank=" << *rank;
    if (step && *step >= 0) out << " step=" << *step;
    out << ' ' << record[expr::smessage];
  });
  logging::core::get()->add_sink(sink);
}

}  // namespace

Severity severity_from(std::string_view name) {
  for (int i = 0; i < 4; ++i)
    if (name == kNames[i]) return static_cast<Severity>(i);
  throw ConfigError(fmt::format("log level is \"{}\", but must be debug, info, warning or error", name));
}

void start_logging(const LogOptions& options) {
  auto core = logging::core::get();
  core->remove_all_sinks();
  core->set_global_attributes({});  // adding one that is there already would change nothing
  if (options.console) {
    FileDescriptor copy(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    if (copy) add_sink(std::move(copy), console_level(options.level), true);
  }
  if (!options.file.empty()) add_sink(open_to_append(options.file), options.level, false);
  logging::add_common_attributes();
  core->add_global_attribute("Host", logging::attributes::constant<std::string>(options.host));
  int process_rank = options.rank;
  core->add_global_attribute("Rank", logging::attributes::make_function(
                                         [process_rank] { return thread_rank >= 0 ? thread_rank : process_rank; }));
  core->add_global_attribute("Step", logging::attributes::make_function([] { return current_step.load(); }));
  core->set_logging_enabled(options.console || !options.file.empty());
  started = true;
}

void set_log_step(Step step) {
  current_step = step.value;
}
void set_log_rank(Rank rank) {
  thread_rank = rank.value;
}

void write_log(Severity severity, const std::string& message) {
  if (!started) {
    if (severity >= Severity::warning)
      Console(STDERR_FILENO).line(fmt::format("{} {}", kNames[static_cast<int>(severity)], printable(message)));
    return;
  }
  thread_local logging::sources::severity_logger<Severity> logger;
  if (auto record = logger.open_record(logging::keywords::severity = severity)) {
    logging::record_ostream stream(record);
    stream << printable(message);
    stream.flush();
    logger.push_record(std::move(record));
  }
}

}  // namespace distdl
