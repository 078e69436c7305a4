// Passes the workers' stdout and stderr from their pipes, line by line, to the launcher's own.
#pragma once

#include <climits>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "paceline/app/launch/output/line_prefixer.h"
#include "paceline/app/launch/output/log_files.h"
#include "paceline/app/launch/output/sink.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

struct OutputOptions {
  bool prefix = true;
  bool colour = true;       // colours the prefix on a terminal
  bool timestamps = false;  // each line begins with the time at which it came
  int ranks = INT_MAX;      // the numbers from here on are those of servers: "[server 0] "

  LogFiles* files = nullptr;  // a second place for lines, the only one for some

  // When set, it encodes bytes of a rank's stream in place of lines, such as into a message to
  // another host.
  std::function<void(int rank, bool error, std::string_view bytes, std::string& out)> frame = {};
  // Bytes of workers that may be on their way before credit() tells that they have arrived; our own
  // texts never wait. 0: no limit.
  std::size_t window = 0;
};

class Output {
 public:
  // `on_lost(errno)` is called when one of our own outputs cannot be written any more.
  Output(transport::Poller& poller, OutputOptions options, std::function<void(int)> on_lost);
  // Writes everything to `fd`.
  Output(transport::Poller& poller, int fd, OutputOptions options,
         std::function<void(int)> on_lost);
  ~Output();

  void add(int rank, transport::FileDescriptor output, transport::FileDescriptor error);
  // Takes bytes that a rank on another host wrote.
  void feed(int rank, bool error, std::string_view bytes);
  void credit(std::size_t bytes);
  bool full() const { return output_->full() || (error_ && error_->full()); }
  // `callback` is called when there is room again, until `who` is forgotten.
  void when_room(const void* who, std::function<void()> callback) {
    when_room_[who] = std::move(callback);
  }
  void forget(const void* who) { when_room_.erase(who); }
  void say(std::string_view text);  // a text of the launcher's own

  // Says that all workers have ended: ends the streams that hold no more bytes, even if an
  // unrelated process holds them open.
  void writers_are_gone();
  bool all_read() const;  // every stream has ended
  bool all_written() const { return all_read() && waiting() == 0; }
  std::size_t waiting() const;  // bytes that are not written yet

 private:
  struct Stream;
  Sink::Events events(std::function<void(int)> on_lost);
  Sink& output() { return *output_; }
  Sink& error() { return error_ ? *error_ : *output_; }
  Stream& add_stream(int rank, bool error, transport::FileDescriptor from);
  void take(Stream& stream, std::string_view bytes);
  void write_file(Stream& stream, std::string_view plain);
  void put(Stream& stream, std::string_view lines);
  void begin_line(Sink& to, const Stream* stream, std::string& text);
  void show_soon(Stream& stream);
  void finish(Stream& stream);
  void read(Stream& stream);
  void end(Stream& stream);
  void watch(Stream& stream, bool on);
  void resume();
  bool may_take(const Stream& stream) const;

  transport::Poller& poller_;
  OutputOptions options_;
  std::unique_ptr<Sink> output_,
      error_;  // error_ is empty when both lead to the same file, so that lines do not mix
  std::list<Stream> streams_;
  std::map<const Sink*, Stream*> open_;          // whose line a terminal has the beginning of
  std::size_t on_their_way_ = 0;                 // bytes without credit
  std::map<std::pair<int, bool>, Stream*> fed_;  // streams of ranks on other hosts
  std::map<const void*, std::function<void()>> when_room_;
};

}  // namespace paceline::launch
