#include "paceline/app/launch/process/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "paceline/app/launch/process/descendants.h"
#include "paceline/app/launch/process/pipe.h"
#include "paceline/app/launch/process/secret_file.h"
#include "paceline/app/launch/process/signals.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::launch {
namespace {

// Programs that open files find the low numbers free, and some take those for granted.
constexpr int kSecretInWorker = 200;

void tell(int status, ShimMessage message) {
  message.stamp_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  // The launcher may be gone.
  [[maybe_unused]] const auto written = ::write(status, &message, sizeof message);
}

void close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned first = 0;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > first) ::close_range(first, number - 1, 0);
    first = std::max(first, number + 1);
  }
  ::close_range(first, ~0U, 0);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// When the system forbids binding, the worker runs on any processor, as it would without it.
void run_on(const ProcessorSet& processors) {
  if (processors.count() == 0) return;
  const auto& words = processors.words;
  ::sched_setaffinity(0, words.size() * sizeof words[0],
                      reinterpret_cast<const cpu_set_t*>(words.data()));
}

// Runs in the worker's process, from fork to exec.
[[noreturn]] void become_worker(const ShimOrders& orders, pid_t shim) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != shim) ::_exit(1);  // it died before the line above
  // All three are first moved above 2, so that no dup2 overwrites a descriptor that is still
  // needed.
  std::array<int, 3> standard = {orders.input, orders.output, orders.error};
  for (int& fd : standard) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  for (int fd = 0; fd < 3; ++fd) ::dup2(standard[static_cast<std::size_t>(fd)], fd);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  const int secret = ::fcntl(orders.secret, F_DUPFD, kSecretInWorker);

  auto command = orders.command;
  auto environment = orders.environment;
  environment.push_back(fmt::format("{}={}", membership::variable::kSecretFile,
                                    path_of_descriptor(shim, orders.secret)));
  if (secret >= 0)
    environment.push_back(fmt::format("{}={}", membership::variable::kSecretFd, secret));
  const auto arguments = pointers(command), variables = pointers(environment);
  run_on(orders.processors);
  ::setrlimit(RLIMIT_NOFILE, &orders.open_files);
  ::sigaction(SIGPIPE, &orders.pipe_action, nullptr);
  ::sigprocmask(SIG_SETMASK, &orders.signal_mask, nullptr);
  ::execve(orders.program.c_str(), arguments.data(), variables.data());
  tell(orders.status, {.kind = ShimMessage::Kind::not_started, .pid = ::getpid(), .value = errno});
  ::_exit(127);
}

class Shim {
 public:
  explicit Shim(const ShimOrders& orders) : orders_(orders) {}

  void run() {
    prepare();
    start_worker();
    while (!over_) wait();
    kill_descendants(Deadline::never(), {},
                     [this](pid_t pid, int status) { on_reaped(pid, status); });
  }

 private:
  // Signals to the group must not end the shim, so all are blocked. Two are read: SIGCHLD, and
  // SIGHUP, which says that the parent died. (The lifeline says so too, unless a stray copy of its
  // other end keeps it open.)
  void prepare() {
    ::setpgid(0, 0);
    become_subreaper();
    ::prctl(PR_SET_NAME, "paceline-shim", 0, 0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGHUP, 0, 0, 0);
    close_all_but({orders_.lifeline, orders_.status, orders_.secret, orders_.input, orders_.output,
                   orders_.error});
    if (launcher_is_gone()) ::_exit(1);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGCHLD);
    ::sigaddset(&signals, SIGHUP);
    signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void start_worker() {
    const pid_t shim = ::getpid();
    worker_ = ::fork();
    if (worker_ == 0) become_worker(orders_, shim);
    if (worker_ < 0) {
      tell(orders_.status, {.kind = ShimMessage::Kind::not_started, .value = errno});
      over_ = true;
      return;
    }
    tell(orders_.status, {.kind = ShimMessage::Kind::started, .pid = worker_});
    // The pipes must end with the worker, not with us.
    close_all_but({orders_.lifeline, orders_.status, orders_.secret, signals_});
  }

  void wait() {
    std::array<pollfd, 2> watched = {pollfd{orders_.lifeline, POLLIN, 0},
                                     pollfd{signals_, POLLIN, 0}};
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) over_ = true;
    if (watched[0].revents != 0) read_lifeline();
    if (watched[1].revents != 0) read_signals();
  }

  void read_lifeline() {
    unsigned char signal = 0;
    const auto got = ::read(orders_.lifeline, &signal, 1);
    if (got == 1) {
      if (signal == SIGUSR1 || signal == SIGUSR2) return signal_processes_with_handler(signal);
      ::kill(0, signal);  // the group includes this process, which blocks it
      forwarded_ = signal;
    }
    if (got == 0) over_ = true;
  }

  void read_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) > 0) {
    }
    if (launcher_is_gone()) over_ = true;
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) on_reaped(pid, status);
    if (pid < 0) over_ = true;  // nobody is left
  }

  void on_reaped(pid_t pid, int status) {
    if (pid != worker_) return;
    tell(orders_.status, {.kind = ShimMessage::Kind::ended, .pid = pid, .value = status});
    // Processes that the worker left behind must not outlive it, unless the same signal is ending
    // them.
    if (forwarded_ == 0 || !WIFSIGNALED(status) || WTERMSIG(status) != forwarded_) over_ = true;
  }

  bool launcher_is_gone() const { return ::getppid() != orders_.launcher; }

  const ShimOrders& orders_;
  pid_t worker_ = -1;
  int signals_ = -1;
  int forwarded_ = 0;  // the last signal that the launcher sent
  bool over_ = false;
};

void set_non_blocking(int fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
}

}  // namespace

void run_shim(const ShimOrders& orders) {
  Shim(orders).run();
  ::_exit(0);
}

Result<WorkerProcess> WorkerProcess::start(ShimOrders orders) {
  auto lifeline = make_pipe("a worker"), status = make_pipe("a worker"),
       output = make_pipe("a worker"), error = make_pipe("a worker");
  for (const auto* made : {&lifeline, &status, &output, &error}) {
    if (!*made) return made->error();
  }
  orders.launcher = ::getpid();
  orders.lifeline = lifeline->read.get();
  orders.status = status->write.get();
  orders.output = output->write.get();
  orders.error = error->write.get();

  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t shim = ::fork();
  if (shim == 0) run_shim(orders);
  const int fork_error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (shim < 0) return io_failure("cannot start a process (raise `ulimit -u`)", fork_error);

  WorkerProcess result;
  result.shim_ = shim;
  result.lifeline_ = std::move(lifeline->write);
  result.status_ = std::move(status->read);
  result.output_ = std::move(output->read);
  result.error_ = std::move(error->read);
  for (const auto* fd : {&result.lifeline_, &result.output_, &result.error_})
    set_non_blocking(fd->get());
  return result;
}

void WorkerProcess::forward(int signal) {
  const auto number = static_cast<unsigned char>(signal);
  // The shim may have ended.
  [[maybe_unused]] const auto written = ::write(lifeline_.get(), &number, 1);
}

void WorkerProcess::kill() {
  lifeline_.reset();
}

std::optional<ShimMessage> WorkerProcess::read() {
  // It is written in one go and far smaller than PIPE_BUF, so it arrives whole.
  ShimMessage message;
  if (::read(status_.get(), &message, sizeof message) != sizeof message) return std::nullopt;
  return message;
}

}  // namespace paceline::launch
