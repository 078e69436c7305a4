// Writes to one of the launcher's own outputs without ever blocking the loop: what cannot be
// written now waits in memory.
//
// A pipe or terminal is opened a second time for that: O_NONBLOCK on the one that we were given
// would also hold for everybody who shares it, and stay after us.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "paceline/core/transport/file_descriptor.h"
#include "paceline/core/transport/poller.h"

namespace paceline::launch {

class Sink {
 public:
  struct Events {
    std::function<void()> on_room = {};     // it was full and is no more
    std::function<void(int)> on_lost = {};  // nothing can be written any more: errno
  };
  static constexpr std::size_t kFull =
      std::size_t{1} << 20;  // bytes that wait; then readers of workers' pipes pause

  // `fd` stays the caller's.
  Sink(transport::Poller& poller, int fd, Events events);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void write(
      std::string_view text);  // text written in one call is not split by other text of this sink
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
  std::size_t written_ = 0;  // of queue_
};

// Whether two descriptors lead to the same file, as after 2>&1.
bool same_file(int one, int other);

}  // namespace paceline::launch
