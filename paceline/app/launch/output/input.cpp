#include "paceline/app/launch/output/input.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "paceline/core/base/result.h"

namespace paceline::launch {
namespace {

constexpr auto kBackgroundPause = std::chrono::milliseconds(500);

}  // namespace

Input::Input(transport::Poller& poller)
    : poller_(poller),
      relays_(::isatty(STDIN_FILENO) == 1),
      nothing_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  if (!nothing_.is_open()) throw Error(io_failure("cannot open /dev/null", errno));
  std::array<int, 2> ends;
  if (!relays_) return;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(io_failure("cannot make a pipe for rank 0's stdin", errno));
  read_end_ = transport::FileDescriptor(ends[0]);
  write_end_ = transport::FileDescriptor(ends[1]);
  ::fcntl(write_end_.get(), F_SETFL, O_NONBLOCK);
}

Input::~Input() {
  end();
}

int Input::descriptor_for(int rank) const {
  if (rank != 0) return nothing_.get();
  return relays_ ? read_end_.get() : STDIN_FILENO;
}

void Input::workers_started() {
  read_end_.reset();
  if (relays_) return watch_terminal(true);
  // The writer of our stdin must see when rank 0 has gone, so we keep no copy of the read end.
  ::dup3(nothing_.get(), STDIN_FILENO, 0);
}

void Input::read_terminal() {
  std::array<char, 4096> piece;
  const auto count = ::read(STDIN_FILENO, piece.data(), piece.size());
  if (count < 0 && errno == EIO)
    return pause_reading();  // we are in the background: the terminal belongs to another process
                             // group
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  watch_terminal(false);  // until this is delivered
  if (count <= 0) {
    terminal_ended_ = true;
  } else {
    waiting_.assign(piece.data(), static_cast<std::size_t>(count));
  }
  write_pipe();
}

void Input::write_pipe() {
  while (!waiting_.empty()) {
    const auto count = ::write(write_end_.get(), waiting_.data(), waiting_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return watch_pipe(true);
    if (count < 0) return end();  // rank 0 has closed its stdin, or ended
    waiting_.erase(0, static_cast<std::size_t>(count));
  }
  watch_pipe(false);
  if (terminal_ended_) return end();
  watch_terminal(true);
}

void Input::pause_reading() {
  watch_terminal(false);
  pause_ = poller_.after(kBackgroundPause, [this] {
    pause_ = 0;
    watch_terminal(true);
  });
}

void Input::watch_terminal(bool on) {
  if (on == terminal_watched_ || !relays_) return;
  terminal_watched_ = on;
  if (!on) return poller_.forget(STDIN_FILENO);
  poller_.watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { read_terminal(); });
}

void Input::watch_pipe(bool on) {
  if (on == pipe_watched_) return;
  pipe_watched_ = on;
  if (!on) return poller_.forget(write_end_.get());
  poller_.watch(write_end_.get(), EPOLLOUT, [this](std::uint32_t) { write_pipe(); });
}

void Input::end() {
  watch_terminal(false);
  watch_pipe(false);
  if (pause_ != 0) poller_.cancel(pause_);
  pause_ = 0;
  write_end_.reset();
}

}  // namespace paceline::launch
