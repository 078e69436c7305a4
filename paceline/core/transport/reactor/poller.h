// Waits for file descriptors and timers, and calls back: epoll with names. The reactor and the
// launcher are made of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

// THREAD: one at a time; only wake(), doze() and end_doze() may be called from anywhere.
class Poller {
 public:
  // EPOLLIN, EPOLLOUT, EPOLLHUP, ... that are ready.
  using Callback = std::function<void(std::uint32_t events)>;
  using TimerId = std::uint64_t;

  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Level-triggered. A callback may watch, change and forget any descriptor, its own included.
  void watch(int fd, std::uint32_t events, Callback callback);
  void change(int fd, std::uint32_t events);
  void forget(int fd);  // before closing it

  TimerId after(Clock::duration delay, std::function<void()> callback);
  void cancel(TimerId timer);

  // Sleeps until a descriptor is ready, a timer is due, wake() was called or `until` has passed;
  // then runs the callbacks. Returns how many ran. Deadline::in(0s) only looks.
  int wait(Deadline until);
  void wake();

  // For a thread that sleeps while another one may come to use the poller: it sleeps until wait()
  // would find something, end_doze() is called or `until` has passed, and changes nothing.
  void doze(Deadline until);
  void end_doze();
  Deadline next_timer() const;  // never, without one

 private:
  struct Watch;
  FileDescriptor epoll_, wake_, doze_end_;
  std::unordered_map<int, std::shared_ptr<Watch>> watches_;
  std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_;
  TimerId next_timer_ = 1;
};

}  // namespace paceline::transport
