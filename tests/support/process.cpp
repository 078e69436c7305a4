#include "tests/support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace paceline::test {
namespace {

using transport::FileDescriptor;

struct Ends {
  FileDescriptor ours, theirs;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(fmt::format("{}: errno {}", what, errno));
}

Ends make_pipe(bool we_write) {
  std::array<int, 2> ends;
  require(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  const auto ours = we_write ? 1U : 0U;
  return {FileDescriptor(ends[ours]), FileDescriptor(ends[1 - ours])};
}

Ends make_terminal() {
  FileDescriptor ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  require(ours.is_open() && ::grantpt(ours.get()) == 0 && ::unlockpt(ours.get()) == 0,
          "posix_openpt");
  FileDescriptor theirs(::open(::ptsname(ours.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  require(theirs.is_open(), "open of a terminal");
  return {std::move(ours), std::move(theirs)};
}

std::vector<std::string> environment_of(const ProcessOptions& options) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto name = text.substr(0, text.find('='));
    const bool replaced = options.environment.contains(name);
    const bool of_a_job = name.starts_with("PACELINE_") && name != "PACELINE_BIN_DIR";
    if (!replaced && !of_a_job) result.push_back(text);
  }
  for (const auto& [name, value] : options.environment) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void become(const ProcessOptions& options, std::array<int, 3> standard) {
  for (int& fd : standard) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  for (int fd = 0; fd < 3; ++fd) ::dup2(standard[static_cast<std::size_t>(fd)], fd);
  if (options.new_terminal) {
    ::setsid();
    ::ioctl(0, TIOCSCTTY, 0);
  }
  ::signal(SIGHUP, options.ignore_hangup ? SIG_IGN : SIG_DFL);
  // A shell lets what it starts in the background ignore these, as tests may be.
  for (const int number : {SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
  if (!options.directory.empty() && ::chdir(options.directory.c_str()) != 0) ::_exit(126);
  auto command = options.command;
  auto environment = environment_of(options);
  ::execvpe(command.front().c_str(), pointers(command).data(), pointers(environment).data());
  ::_exit(127);
}

// Returns what can be read: files of /proc vanish with their processes, also in the middle.
std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::string binary(const std::string& name) {
  const char* folder = ::getenv("PACELINE_BIN_DIR");
  return std::string(folder != nullptr ? folder : PACELINE_BIN_DIR) + "/" + name;
}

std::string source(const std::string& path) {
  return PACELINE_SOURCE_DIR "/" + path;
}

Process::Process(const ProcessOptions& options) {
  Ends terminal, input, output, error;
  std::array<int, 3> standard = {options.input, options.output, options.error};
  if (options.new_terminal) {
    terminal = make_terminal();
    standard.fill(terminal.theirs.get());
    input_ = FileDescriptor(::fcntl(terminal.ours.get(), F_DUPFD_CLOEXEC, 3));
    output_.from = std::move(terminal.ours);
  }
  if (standard[0] < 0) {
    input = make_pipe(true);
    standard[0] = input.theirs.get();
    input_ = std::move(input.ours);
  }
  if (standard[1] < 0) {
    output = make_pipe(false);
    standard[1] = output.theirs.get();
    output_.from = std::move(output.ours);
  }
  if (standard[2] < 0) {
    error = make_pipe(false);
    standard[2] = error.theirs.get();
    error_.from = std::move(error.ours);
  }
  pid_ = ::fork();
  require(pid_ >= 0, "fork");
  if (pid_ == 0) become(options, standard);
}

Process::~Process() {
  if (reap()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::write(const std::string& text) {
  const auto count = ::write(input_.get(), text.data(), text.size());
  require(count == static_cast<ssize_t>(text.size()), "write to a process");
}

void Process::send(int signal) {
  if (!reap()) ::kill(pid_, signal);
}

bool Process::wait_for_output(const std::string& text, Deadline deadline) {
  return wait_for(output_, text, deadline);
}
bool Process::wait_for_error(const std::string& text, Deadline deadline) {
  return wait_for(error_, text, deadline);
}

bool Process::wait_for(const Stream& stream, const std::string& text, Deadline deadline) {
  while (stream.text.find(text) == std::string::npos) {
    if (!pump(deadline)) return stream.text.find(text) != std::string::npos;
  }
  return true;
}

std::optional<int> Process::wait(Deadline deadline) {
  while (pump(deadline)) {
  }
  ends_unread(deadline);  // the pipes are at their end: it has ended, or is about to
  return status_;
}

bool Process::ends_unread(Deadline deadline) {
  if (reap()) return true;
  const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  require(handle.is_open(), "pidfd_open");
  pollfd ended = {handle.get(), POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
  ::poll(&ended, 1, static_cast<int>(left.count()));
  return reap();
}

// Reads the available output, waiting for some. false: both streams have ended, or the deadline has
// passed.
bool Process::pump(Deadline deadline) {
  std::array<pollfd, 2> watched = {pollfd{output_.from.get(), POLLIN, 0},
                                   pollfd{error_.from.get(), POLLIN, 0}};
  if (!output_.from.is_open() && !error_.from.is_open()) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
  if (::poll(watched.data(), watched.size(), static_cast<int>(left.count())) <= 0) return false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (watched[i].revents == 0) continue;
    Stream& stream = i == 0 ? output_ : error_;
    std::array<char, 65536> piece;
    const auto count = ::read(stream.from.get(), piece.data(), piece.size());
    if (count > 0) stream.text.append(piece.data(), static_cast<std::size_t>(count));
    if (count <= 0) stream.from.reset();
  }
  return true;
}

bool Process::reap() {
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

Finished run(const ProcessOptions& options, Deadline deadline) {
  const auto begin = Clock::now();
  Process process(options);
  process.close_input();
  const auto status = process.wait(deadline);
  Finished result{.exit_code = -1,
                  .output = process.output(),
                  .error = process.error(),
                  .took = Clock::now() - begin};
  if (status)
    result.exit_code = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<pid_t> processes_of_job(const std::string& job) {
  std::vector<pid_t> found;
  const std::string wanted = "PACELINE_JOB=" + job;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const std::string environment = '\0' + file_text(fmt::format("/proc/{}/environ", pid));
    if (environment.find('\0' + wanted) != std::string::npos && is_alive(pid)) found.push_back(pid);
  }
  return found;
}

std::string variable_of(pid_t pid, const std::string& name) {
  const std::string environment = '\0' + file_text(fmt::format("/proc/{}/environ", pid));
  const auto at = environment.find('\0' + name + '=');
  return at == std::string::npos ? std::string()
                                 : std::string(environment.c_str() + at + name.size() + 2);
}

bool is_alive(pid_t pid) {
  const std::string stat = file_text(fmt::format("/proc/{}/stat", pid));
  const auto name_end = stat.rfind(')');  // "12 (name) S ..."
  return name_end != std::string::npos && name_end + 2 < stat.size() && stat[name_end + 2] != 'Z' &&
         stat[name_end + 2] != 'X';
}

std::string left_overs(const std::string& job, const std::vector<pid_t>& pids, Deadline deadline) {
  while (true) {
    std::string found;
    for (const pid_t pid : processes_of_job(job))
      found += fmt::format("process {} of the job; ", pid);
    for (const pid_t pid : pids) {
      if (is_alive(pid)) found += fmt::format("process {}; ", pid);
    }
    for (const auto& line : lines_of(file_text("/proc/net/unix"))) {
      if (line.find("paceline") != std::string::npos && line.find(job) != std::string::npos)
        found += line + "; ";
    }
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      const auto name = entry.path().filename().string();
      if (name.find("paceline") != std::string::npos) found += entry.path().string() + "; ";
    }
    if (found.empty() || deadline.passed()) return found;
    ::poll(nullptr, 0, 5);
  }
}

}  // namespace paceline::test
