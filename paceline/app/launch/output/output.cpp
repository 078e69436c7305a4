#include "paceline/app/launch/output/output.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

namespace paceline::launch {
namespace {

std::string prefix_of(int rank, int ranks, bool coloured) {
  constexpr std::array kColours = {
      36, 33, 32, 35, 34, 96, 93, 92, 95, 94};  // codes of terminal colours; red is left to errors
  const std::string name =
      rank < ranks ? std::to_string(rank) : fmt::format("server {}", rank - ranks);
  if (!coloured) return fmt::format("[{}] ", name);
  return fmt::format("\033[{}m[{}]\033[0m ",
                     kColours[static_cast<std::size_t>(rank) % kColours.size()], name);
}

// A prompt, or a program that draws its progress, waits no longer for the end of its line.
constexpr auto kShownAfter = std::chrono::milliseconds(100);

std::string time_of_day() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto milliseconds = now.time_since_epoch().count() % 1000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} ",
                     fmt::localtime(std::chrono::system_clock::to_time_t(now)), milliseconds);
}

}  // namespace

struct Output::Stream {
  int rank;
  bool error;
  transport::FileDescriptor from;
  Sink& to;
  LinePrefixer lines;
  LinePrefixer plain;  // for the file
  bool watched = false;
  transport::Poller::TimerId shown_at = 0;  // 0: nothing waits to be shown
};

Sink::Events Output::events(std::function<void(int)> on_lost) {
  return {.on_room = [this] { resume(); }, .on_lost = std::move(on_lost)};
}

Output::Output(transport::Poller& poller, OutputOptions options, std::function<void(int)> on_lost)
    : Output(poller, STDOUT_FILENO, std::move(options), on_lost) {
  if (!same_file(STDOUT_FILENO, STDERR_FILENO))
    error_ = std::make_unique<Sink>(poller, STDERR_FILENO, events(std::move(on_lost)));
}

Output::Output(transport::Poller& poller, int fd, OutputOptions options,
               std::function<void(int)> on_lost)
    : poller_(poller),
      options_(std::move(options)),
      output_(std::make_unique<Sink>(poller, fd, events(std::move(on_lost)))) {}

Output::~Output() {
  for (Stream& stream : streams_) {
    watch(stream, false);
    if (stream.shown_at != 0) poller_.cancel(stream.shown_at);
  }
}

void Output::add(int rank, transport::FileDescriptor output_pipe,
                 transport::FileDescriptor error_pipe) {
  watch(add_stream(rank, false, std::move(output_pipe)), true);
  watch(add_stream(rank, true, std::move(error_pipe)), true);
}

Output::Stream& Output::add_stream(int rank, bool is_error, transport::FileDescriptor from) {
  Sink& to = is_error ? error() : output();
  const auto prefix = options_.prefix
                          ? prefix_of(rank, options_.ranks, options_.colour && to.is_terminal())
                          : std::string();
  const std::function<std::string()> stamp = options_.timestamps ? time_of_day : nullptr;
  streams_.push_back(
      Stream{rank, is_error, std::move(from), to,
             LinePrefixer({.prefix = prefix, .stamp = stamp, .redraws = to.is_terminal()}),
             LinePrefixer({.stamp = stamp})});
  return streams_.back();
}

void Output::feed(int rank, bool is_error, std::string_view bytes) {
  Stream*& stream = fed_[{rank, is_error}];
  if (stream == nullptr) stream = &add_stream(rank, is_error, {});
  take(*stream, bytes);
}

bool Output::may_take(const Stream& stream) const {
  return !stream.to.full() && (options_.window == 0 || on_their_way_ < options_.window);
}

void Output::credit(std::size_t bytes) {
  on_their_way_ -= std::min(bytes, on_their_way_);
  resume();
}

void Output::take(Stream& stream, std::string_view bytes) {
  std::string lines;
  on_their_way_ += bytes.size();
  if (options_.frame) {
    options_.frame(stream.rank, stream.error, bytes, lines);
    return stream.to.write(lines);
  }
  if (options_.files != nullptr) {
    std::string plain;
    stream.plain.feed(bytes, plain);
    write_file(stream, plain);
  }
  if (options_.files != nullptr && !options_.files->shows(stream.rank, stream.error)) return;
  stream.lines.feed(bytes, lines);
  put(stream, lines);
  if (stream.to.is_terminal() && stream.lines.holds()) show_soon(stream);
}

// Lines that have no place in the file are printed, if the masks did not say so already.
void Output::write_file(Stream& stream, std::string_view plain) {
  const bool is_shown = options_.files->shows(stream.rank, stream.error);
  const std::string_view left = options_.files->write(stream.rank, stream.error, plain);
  if (left.empty()) return;
  say(options_.files->take_troubles());
  if (is_shown) return;
  std::string lines;
  stream.lines.feed(left, lines);
  begin_line(error(), nullptr, lines);
  error().write(lines);
}

void Output::say(std::string_view words) {
  std::string text(words);
  begin_line(error(), nullptr, text);
  error().write(text);
}

void Output::put(Stream& stream, std::string_view lines) {
  std::string text(lines);
  begin_line(stream.to, &stream, text);
  stream.to.write(text);
  if (stream.lines.is_open()) open_[&stream.to] = &stream;
}

// Ends the line of another stream that stands on the terminal.
void Output::begin_line(Sink& to, const Stream* stream, std::string& text) {
  Stream*& open = open_[&to];
  if (text.empty() || open == nullptr) return;
  if (open != stream) {
    text.insert(0, 1, '\n');
    open->lines.interrupt();
  }
  open = nullptr;
}

void Output::show_soon(Stream& stream) {
  if (stream.shown_at != 0) return;
  stream.shown_at = poller_.after(kShownAfter, [this, &stream] {
    stream.shown_at = 0;
    std::string begin;
    stream.lines.show(begin);
    put(stream, begin);
  });
}

// A last line without a newline gets one.
void Output::finish(Stream& stream) {
  std::string lines, plain;
  stream.plain.finish(plain);
  if (options_.files != nullptr) write_file(stream, plain);
  stream.lines.finish(lines);
  put(stream, lines);
}

void Output::read(Stream& stream) {
  if (!may_take(stream))
    return watch(stream, false);  // its worker waits, as it would for any slow reader
  std::array<char, 65536> piece;
  const auto count = ::read(stream.from.get(), piece.data(), piece.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return end(stream);
  take(stream, {piece.data(), static_cast<std::size_t>(count)});
}

void Output::end(Stream& stream) {
  watch(stream, false);
  stream.from.reset();
  finish(stream);
}

void Output::watch(Stream& stream, bool on) {
  if (on == stream.watched || !stream.from.is_open()) return;
  stream.watched = on;
  if (!on) return poller_.forget(stream.from.get());
  poller_.watch(stream.from.get(), EPOLLIN, [this, &stream](std::uint32_t) { read(stream); });
}

void Output::resume() {
  for (Stream& stream : streams_) {
    if (may_take(stream)) watch(stream, true);
  }
  for (const auto& [who, callback] : when_room_) callback();
}

void Output::writers_are_gone() {
  for (const auto& [of, stream] : fed_) finish(*stream);
  for (Stream& stream : streams_) {
    int left = 0;
    const bool dry = ::ioctl(stream.from.get(), FIONREAD, &left) != 0 || left == 0;
    if (stream.from.is_open() && dry) end(stream);
  }
}

bool Output::all_read() const {
  for (const Stream& stream : streams_) {
    if (stream.from.is_open()) return false;
  }
  return true;
}

std::size_t Output::waiting() const {
  return output_->waiting() + (error_ ? error_->waiting() : 0);
}

}  // namespace paceline::launch
