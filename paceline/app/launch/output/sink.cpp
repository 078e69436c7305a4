#include "paceline/app/launch/output/sink.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace paceline::launch {

Sink::Sink(transport::Poller& poller, int fd, Events events)
    : poller_(poller), fd_(fd), events_(std::move(events)), terminal_(::isatty(fd) == 1) {
  struct stat about = {};
  if (::fstat(fd, &about) != 0) return;
  if (S_ISSOCK(about.st_mode)) kind_ = Kind::socket;
  if (!S_ISFIFO(about.st_mode) && !terminal_) return;  // a file or /dev/null never makes us wait
  const auto again = fmt::format("/proc/self/fd/{}", fd);
  own_ = transport::FileDescriptor(
      ::open(again.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  kind_ = own_.is_open()
              ? Kind::non_blocking
              : Kind::pipe_pieces;  // reopening fails, e.g. after su, when it is another user's
  if (own_.is_open()) fd_ = own_.get();
}

Sink::~Sink() {
  watch(false);
}

void Sink::write(std::string_view text) {
  if (lost_ || text.empty()) return;
  queue_.append(text);
  if (watched_) return;
  kind_ == Kind::pipe_pieces ? watch(true) : flush();
}

void Sink::flush() {
  const bool was_full = full();
  while (waiting() > 0) {
    const long count = write_some();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count < 0) return lose(errno);
    written_ += static_cast<std::size_t>(count);
    if (kind_ == Kind::pipe_pieces) break;  // only epoll knows whether there is room for another
  }
  if (written_ > queue_.size() / 2) {
    queue_.erase(0, written_);
    written_ = 0;
  }
  watch(waiting() > 0);
  if (was_full && !full() && events_.on_room) events_.on_room();
}

long Sink::write_some() {
  const char* from = queue_.data() + written_;
  if (kind_ == Kind::socket) return ::send(fd_, from, waiting(), MSG_DONTWAIT | MSG_NOSIGNAL);
  // A pipe that epoll calls writable has room for PIPE_BUF bytes.
  const std::size_t most = kind_ == Kind::pipe_pieces ? PIPE_BUF : waiting();
  return ::write(fd_, from, std::min(most, waiting()));
}

void Sink::lose(int error_number) {
  watch(false);
  lost_ = true;
  queue_.clear();
  written_ = 0;
  if (events_.on_lost) events_.on_lost(error_number);
  if (events_.on_room) events_.on_room();  // workers may go on writing into the void
}

void Sink::watch(bool on) {
  if (on == watched_ || kind_ == Kind::direct) return;
  watched_ = on;
  if (!on) return poller_.forget(fd_);
  poller_.watch(fd_, EPOLLOUT, [this](std::uint32_t) { flush(); });
}

bool same_file(int one, int other) {
  struct stat a = {}, b = {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace paceline::launch
