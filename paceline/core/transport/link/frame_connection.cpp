#include "paceline/core/transport/link/frame_connection.h"

#include <sys/epoll.h>

namespace paceline::transport {

FrameConnection::FrameConnection(FileDescriptor socket, const StreamIdentity& identity,
                                 Callbacks callbacks)
    : socket_(std::move(socket)),
      channel_(socket_.get()),
      stream_(channel_, *this, identity, false),
      callbacks_(std::move(callbacks)) {}

FrameConnection::~FrameConnection() {
  unwatch();
}

void FrameConnection::watch(Poller& poller) {
  unwatch();
  poller_ = &poller;
  waits_to_write_ = stream_.has_unsent();
  poller.watch(socket_.get(), waits_to_write_ ? EPOLLIN | EPOLLOUT : EPOLLIN,
               [this](std::uint32_t events) { on_ready(events); });
}

void FrameConnection::unwatch() {
  if (poller_ != nullptr) poller_->forget(socket_.get());
  poller_ = nullptr;
}

void FrameConnection::send(const FrameHeader& header, Bytes payload) {
  stream_.send(header, payload);
  if (stream_.flush())
    update_events();  // a failure comes again, and is told, when the poller looks
}

void FrameConnection::update_events() {
  if (poller_ == nullptr || stream_.has_unsent() == waits_to_write_) return;
  waits_to_write_ = stream_.has_unsent();
  poller_->change(socket_.get(), waits_to_write_ ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void FrameConnection::on_ready(std::uint32_t events) {
  // First what the other side told: when it is gone, writing fails, and its last words must be
  // heard before that.
  Result<bool> moved = true;
  if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) moved = stream_.receive();
  if (moved && (events & EPOLLOUT) != 0) moved = stream_.flush();
  if (moved) {
    update_events();
    return;
  }
  unwatch();
  const auto on_end = callbacks_.on_end;  // it may destroy this
  const Failure why = moved.error();
  on_end(why);
}

}  // namespace paceline::transport
