#include "paceline/core/transport/reactor/poller.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "paceline/core/base/check.h"

namespace paceline::transport {

namespace {

void ring(const FileDescriptor& event) {
  const std::uint64_t one = 1;
  // Full means: awake anyway.
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
}

void clear(const FileDescriptor& event) {
  std::uint64_t count;
  while (::read(event.get(), &count, sizeof count) > 0) {
  }
}

timespec time_left(Deadline until) {
  const auto left = until.left();
  return {.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
}

}  // namespace

struct Poller::Watch {
  Callback callback;
  bool alive = true;
};

Poller::Poller()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      doze_end_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.is_open() || !wake_.is_open() || !doze_end_.is_open()) {
    throw Error(io_failure("cannot create an epoll descriptor (raise `ulimit -n`?)", errno));
  }
  watch(wake_.get(), EPOLLIN, [this](std::uint32_t) { clear(wake_); });
}

Poller::~Poller() = default;

void Poller::watch(int fd, std::uint32_t events, Callback callback) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    throw Error(io_failure("cannot watch a file descriptor", errno));
  }
  watches_[fd] = std::make_shared<Watch>(Watch{std::move(callback)});
}

void Poller::change(int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::forget(int fd) {
  const auto found = watches_.find(fd);
  if (found == watches_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  found->second->alive = false;  // it may be among the events that are being handled
  watches_.erase(found);
}

Poller::TimerId Poller::after(Clock::duration delay, std::function<void()> callback) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair(Clock::now() + delay, id), std::move(callback));
  return id;
}

void Poller::cancel(TimerId timer) {
  std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
}

int Poller::wait(Deadline until) {
  until = until.sooner(next_timer());
  const timespec timeout = time_left(until);
  std::array<epoll_event, 64> ready;
  int count =
      ::epoll_pwait2(epoll_.get(), ready.data(), static_cast<int>(ready.size()), &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {  // Linux before 5.11
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(until.left()).count();
    count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()),
                         static_cast<int>(left_ms));
  }
  // The watches are held while they run: a callback may forget any of them.
  std::vector<std::pair<std::shared_ptr<Watch>, std::uint32_t>> due;
  for (int i = 0; i < count; ++i) {
    const epoll_event event = ready[static_cast<std::size_t>(i)];
    const auto found = watches_.find(event.data.fd);
    if (found != watches_.end()) due.emplace_back(found->second, std::uint32_t{event.events});
  }
  int ran = 0;
  for (const auto& [watch, events] : due) {
    if (!watch->alive) continue;
    watch->callback(events);
    ++ran;
  }
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto callback = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    callback();
    ++ran;
  }
  return ran;
}

void Poller::wake() {
  ring(wake_);
}

void Poller::doze(Deadline until) {
  const timespec timeout = time_left(until);
  std::array<pollfd, 2> both{pollfd{.fd = epoll_.get(), .events = POLLIN},
                             pollfd{.fd = doze_end_.get(), .events = POLLIN}};
  ::ppoll(both.data(), both.size(), &timeout, nullptr);
  clear(doze_end_);
}

void Poller::end_doze() {
  ring(doze_end_);
}

Deadline Poller::next_timer() const {
  return timers_.empty() ? Deadline::never() : Deadline::at(timers_.begin()->first.first);
}

}  // namespace paceline::transport
