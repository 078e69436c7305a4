#include "program_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace examples {

using paceline::Failure;
using paceline::Fault;
using paceline::io_failure;
using paceline::Result;

namespace {

// One end of a pipe, which it closes.
class PipeEnd {
 public:
  explicit PipeEnd(int descriptor) : descriptor_(descriptor) {}
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;
  ~PipeEnd() { close(); }

  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

Result<pid_t> start(std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<char*, 1> no_variables = {nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = -1;
  const int error = ::posix_spawn(&process, arguments.front(), &actions, nullptr, arguments.data(),
                                  no_variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return io_failure(fmt::format("cannot start {}", command.front()), error);
  return process;
}

// Everything that comes, or the first `most_bytes` and one more byte.
std::string read_up_to(int from, std::size_t most_bytes) {
  std::string text;
  std::array<char, 1 << 16> piece;
  while (text.size() <= most_bytes) {
    const ssize_t count = ::read(from, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return text;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<std::string> output_of_program(std::vector<std::string> command, std::size_t most_bytes) {
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return io_failure("cannot make a pipe", errno);
  PipeEnd from(ends[0]), to(ends[1]);
  const auto process = start(command, to.get());
  to.close();  // so that the end of the program ends its output
  if (!process) return process.error();
  std::string text = read_up_to(from.get(), most_bytes);
  if (text.size() > most_bytes) ::kill(process.value(), SIGKILL);
  const int status = wait_for(process.value());
  if (text.size() > most_bytes)
    return Failure{
        Fault::io, fmt::format("{} wrote more than {} bytes", command[0], most_bytes), {}};
  if (status != 0)
    return Failure{Fault::io,
                   WIFEXITED(status)
                       ? fmt::format("{} ended with status {}", command[0], WEXITSTATUS(status))
                       : fmt::format("{} was ended by signal {}", command[0], WTERMSIG(status)),
                   {}};
  return text;
}

}  // namespace examples
