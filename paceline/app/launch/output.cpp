#include "paceline/app/launch/output.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace paceline::launch {
namespace {

std::string prefix_of(int rank, bool coloured) {
  constexpr std::array kColours = {36, 33, 32, 35, 34,
                                   96, 93, 92, 95, 94};  // of the terminal; red is left to errors
  if (!coloured) return fmt::format("[{}] ", rank);
  return fmt::format("\033[{}m[{}]\033[0m ",
                     kColours[static_cast<std::size_t>(rank) % kColours.size()], rank);
}

}  // namespace

struct Output::Stream {
  transport::FileDescriptor from;
  Sink& to;
  LinePrefixer lines;
  bool watched = false;
};

Output::Output(transport::Poller& poller, OutputOptions options, std::function<void(int)> on_lost)
    : poller_(poller), options_(options) {
  const Sink::Events events{.on_room = [this] { resume(); }, .on_lost = std::move(on_lost)};
  output_ = std::make_unique<Sink>(poller, STDOUT_FILENO, events);
  if (!same_file(STDOUT_FILENO, STDERR_FILENO))
    error_ = std::make_unique<Sink>(poller, STDERR_FILENO, events);
}

Output::~Output() {
  for (Stream& stream : streams_) watch(stream, false);
}

void Output::add(int rank, transport::FileDescriptor output_pipe,
                 transport::FileDescriptor error_pipe) {
  add_stream(rank, std::move(output_pipe), output());
  add_stream(rank, std::move(error_pipe), error());
}

void Output::add_stream(int rank, transport::FileDescriptor from, Sink& to) {
  const auto prefix =
      options_.prefix ? prefix_of(rank, options_.colour && to.is_terminal()) : std::string();
  streams_.push_back(Stream{std::move(from), to, LinePrefixer(prefix)});
  watch(streams_.back(), true);
}

void Output::read(Stream& stream) {
  if (stream.to.full())
    return watch(stream, false);  // its worker waits, as it would for any slow reader
  std::array<char, 65536> piece;
  const auto count = ::read(stream.from.get(), piece.data(), piece.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return end(stream);
  std::string lines;
  stream.lines.feed({piece.data(), static_cast<std::size_t>(count)}, lines);
  stream.to.write(lines);
}

void Output::end(Stream& stream) {
  watch(stream, false);
  stream.from.reset();
  std::string lines;
  stream.lines.finish(lines);
  stream.to.write(lines);
}

void Output::watch(Stream& stream, bool on) {
  if (on == stream.watched || !stream.from.is_open()) return;
  stream.watched = on;
  if (!on) return poller_.forget(stream.from.get());
  poller_.watch(stream.from.get(), EPOLLIN, [this, &stream](std::uint32_t) { read(stream); });
}

void Output::resume() {
  for (Stream& stream : streams_) {
    if (!stream.to.full()) watch(stream, true);
  }
}

void Output::writers_are_gone() {
  for (Stream& stream : streams_) {
    int left = 0;
    const bool dry = ::ioctl(stream.from.get(), FIONREAD, &left) != 0 || left == 0;
    if (stream.from.is_open() && dry) end(stream);
  }
}

bool Output::all_written() const {
  for (const Stream& stream : streams_) {
    if (stream.from.is_open()) return false;
  }
  return waiting() == 0;
}

std::size_t Output::waiting() const {
  return output_->waiting() + (error_ ? error_->waiting() : 0);
}

}  // namespace paceline::launch
