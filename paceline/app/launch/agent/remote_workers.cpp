#include "paceline/app/launch/agent/remote_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <utility>

#include "paceline/app/launch/process/pipe.h"
#include "paceline/app/launch/process/program.h"

namespace paceline::launch {
namespace {

using Kind = AgentMessage::Kind;

constexpr std::chrono::milliseconds kEnd{300};  // the time an agent and its ssh have to end

Clock::time_point moment_ago(std::int64_t nanoseconds) {
  return Clock::now() - std::chrono::nanoseconds(nanoseconds);
}

[[noreturn]] void become_ssh(std::vector<std::string> command, int input, int output,
                             const sigset_t& signal_mask) {
  ::setpgid(0, 0);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::dprintf(STDERR_FILENO, "paceline run: cannot execute %s: %s\n", arguments[0],
            ::strerrordesc_np(errno));
  ::_exit(127);
}

std::string why_ssh_ended(pid_t process, const std::string& host) {
  int status = 0;
  const Deadline soon = Deadline::in(std::chrono::milliseconds(100));
  while (process > 0 && ::waitpid(process, &status, WNOHANG) == 0 && !soon.passed()) ::usleep(1000);
  if (process > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fmt::format(
        "the command that was to reach host {} ended with code 127: Paceline must be installed "
        "there under the same path",
        host);
  }
  if (process > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    return fmt::format(
        "the command that reached host {} ended with code {}: try it by hand (ssh keys, host name)",
        host, WEXITSTATUS(status));
  }
  return fmt::format("the connection to host {} ended", host);
}

}  // namespace

Result<AgentChannel> start_agent(const std::vector<std::string>& ssh_command,
                                 const std::string& host, const sigset_t& signal_mask) {
  auto down = make_pipe("another host"), up = make_pipe("another host");
  if (!down) return down.error();
  if (!up) return up.error();
  std::vector<std::string> command = ssh_command;
  // ssh hands its words to a shell on the other side.
  for (const std::string& word :
       {host, shell_word(std::filesystem::read_symlink("/proc/self/exe").string()),
        std::string("run"), std::string("--as-agent")}) {
    command.push_back(word);
  }
  const pid_t process = ::fork();
  if (process == 0) become_ssh(command, down->read.get(), up->write.get(), signal_mask);
  if (process < 0) return io_failure("cannot start a process (raise `ulimit -u`)", errno);
  return AgentChannel{host, process, std::move(up->read), std::move(down->write)};
}

RemoteWorkers::RemoteWorkers(transport::Poller& poller, Output& output, WorkerEvents events,
                             AgentChannel channel, const AgentOrders& orders)
    : poller_(poller),
      output_(output),
      events_(std::move(events)),
      channel_(std::move(channel)),
      to_(poller, channel_.to.get(), {}) {
  for (int i = 0; i < orders.count; ++i) running_.insert(orders.first + i);
  for (const int server : orders.servers) running_.insert(orders.job.world_size + server);
  output_.when_room(this, [this] { give_credit(); });
  watch(true);
  tell({.kind = Kind::orders, .text = to_json(orders)});
}

RemoteWorkers::~RemoteWorkers() {
  output_.forget(this);
  watch(false);
  channel_.to.reset();  // end of file: the agent kills all workers and ends
  if (channel_.process <= 0) return;
  const Deadline soon = gone_by_.sooner(Deadline::in(kEnd));
  while (::waitpid(channel_.process, nullptr, WNOHANG) == 0) {
    if (soon.passed()) ::kill(-channel_.process, SIGKILL);
    ::usleep(1000);
  }
}

void RemoteWorkers::start_server(int member, int server) {
  running_.insert(member);
  drained_ = false;
  tell({.kind = Kind::start, .rank = member, .number = server});
}

// A host that has not answered has started nothing that could save, and may never answer.
void RemoteWorkers::forward(int signal) {
  const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
  if (stops && !has_answered_ && channel_.process > 0)
    return lose(fmt::format("host {} had not answered when the run was stopped", channel_.host));
  tell({.kind = Kind::signal, .number = signal});
}
void RemoteWorkers::kill() {
  tell({.kind = Kind::kill});
}

void RemoteWorkers::end(int exit_code) {
  gone_by_ = Deadline::in(kEnd);
  tell({.kind = Kind::done, .number = exit_code});
}

std::optional<AgentChannel> RemoteWorkers::take_channel() {
  if (gone_ || !drained_) return std::nullopt;
  if (owed_ > 0) tell({.kind = Kind::credit, .number = static_cast<std::int64_t>(owed_)});
  watch(false);
  gone_ = true;
  AgentChannel channel = std::move(channel_);
  channel_.process = -1;
  return channel;
}

void RemoteWorkers::tell(const AgentMessage& message) {
  if (gone_) return;
  std::string bytes;
  append(message, bytes);
  to_.write(bytes);
}

void RemoteWorkers::watch(bool on) {
  if (on == watched_ || (on && gone_)) return;
  watched_ = on;
  if (!on) return poller_.forget(channel_.from.get());
  poller_.watch(channel_.from.get(), EPOLLIN, [this](std::uint32_t) { read(); });
}

void RemoteWorkers::read() {
  std::array<char, 65536> piece;
  const auto count = ::read(channel_.from.get(), piece.data(), piece.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return lose(why_ssh_ended(channel_.process, channel_.host));
  has_answered_ = true;
  reader_.feed({piece.data(), static_cast<std::size_t>(count)});
  while (!gone_) {
    const auto message = reader_.next();
    if (!message) return lose(fmt::format("host {}: {}", channel_.host, message.error().what));
    if (!message.value()) return;
    heed(*message.value());
  }
}

void RemoteWorkers::heed(const AgentMessage& message) {
  const auto about_a_rank = message.kind >= Kind::started && message.kind <= Kind::ended;
  if (about_a_rank && !running_.contains(message.rank)) return;
  switch (message.kind) {
    case Kind::started: return events_.started(message.rank, static_cast<int>(message.number));
    case Kind::not_started:
      running_.erase(message.rank);
      return events_.not_started(message.rank, message.text, moment_ago(message.number));
    case Kind::ended: {
      int status = 0;
      std::from_chars(message.text.data(), message.text.data() + message.text.size(), status);
      running_.erase(message.rank);
      return events_.ended(message.rank, status, moment_ago(message.number));
    }
    case Kind::output:
    case Kind::error:
      output_.feed(message.rank, message.kind == Kind::error, message.text);
      owed_ += message.text.size();
      return give_credit();
    case Kind::drained: drained_ = running_.empty(); return;  // a server may have been asked for
    case Kind::refused: return lose(fmt::format("host {}: {}", channel_.host, message.text));
    default:
      return lose(fmt::format(
          "host {} sent a message that no agent sends: install the same Paceline on all hosts",
          channel_.host));
  }
}

// Without credit the agent sends no more output, and its workers wait; how they end is told all the
// same.
void RemoteWorkers::give_credit() {
  if (owed_ == 0 || output_.full()) return;
  tell({.kind = Kind::credit, .number = static_cast<std::int64_t>(std::exchange(owed_, 0))});
}

void RemoteWorkers::lose(const std::string& why) {
  watch(false);
  gone_ = true;
  const auto left = running_;
  running_.clear();
  for (const int rank : left) events_.lost(rank, why);
}

}  // namespace paceline::launch
