// The workers' stdout and stderr: from their pipes, line by line, to the launcher's own.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string_view>

#include "paceline/app/launch/line_prefixer.h"
#include "paceline/app/launch/sink.h"
#include "paceline/core/transport/file_descriptor.h"
#include "paceline/core/transport/poller.h"

namespace paceline::launch {

struct OutputOptions {
  bool prefix = true;
  bool colour = true;  // of the prefix, on a terminal
};

class Output {
 public:
  // `on_lost(errno)`: one of our own outputs cannot be written any more.
  Output(transport::Poller& poller, OutputOptions options, std::function<void(int)> on_lost);
  ~Output();

  void add(int rank, transport::FileDescriptor output, transport::FileDescriptor error);
  void say(std::string_view text) { error().write(text); }  // a word of the launcher's own

  // Nobody is left who writes: ends the streams that hold no more bytes, even if a stranger holds
  // them open.
  void writers_are_gone();
  bool all_written() const;
  std::size_t waiting() const;  // bytes that nobody took yet

 private:
  struct Stream;
  Sink& output() { return *output_; }
  Sink& error() { return error_ ? *error_ : *output_; }
  void add_stream(int rank, transport::FileDescriptor from, Sink& to);
  void read(Stream& stream);
  void end(Stream& stream);
  void watch(Stream& stream, bool on);
  void resume();

  transport::Poller& poller_;
  OutputOptions options_;
  std::unique_ptr<Sink> output_,
      error_;  // error_ is empty when both lead to the same file: then lines must not mix
  std::list<Stream> streams_;
};

}  // namespace paceline::launch
