// Writes to one of the launcher's own outputs without ever blocking the loop: bytes that cannot be
// written now wait in memory.
//
// A pipe or terminal is opened a second time for that: O_NONBLOCK on the given descriptor would
// hold for every process that shares it, and remain after us.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

class Sink {
 public:
  struct Events {
    std::function<void()> on_room = {};     // it was full and is so no more
    std::function<void(int)> on_lost = {};  // errno; nothing can be written any more
  };
  // Bytes that wait; above it, readers of workers' pipes pause.
  static constexpr std::size_t kFull = std::size_t{1} << 20;

  // The caller keeps `fd` and closes it.
  Sink(transport::Poller& poller, int fd, Events events);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Text written in one call is not split by other text of this sink.
  void write(std::string_view text);
  bool full() const { return waiting() >= kFull; }
  std::size_t waiting() const { return queue_.size() - written_; }
  bool is_terminal() const { return terminal_; }

 private:
  enum class Kind { direct, non_blocking, pipe_pieces, socket };

  void flush();
  long write_some();
  void lose(int error_number);
  void watch(bool on);

  transport::Poller& poller_;
  int fd_;
  Events events_;
  Kind kind_ = Kind::direct;
  bool terminal_ = false, watched_ = false, lost_ = false;
  transport::FileDescriptor own_;
  std::string queue_;
  std::size_t written_ = 0;  // bytes of queue_
};

// Whether two descriptors lead to the same file, as after 2>&1.
bool same_file(int one, int other);

}  // namespace paceline::launch
