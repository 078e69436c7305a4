#include "paceline/core/observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace paceline::observe {
namespace {

std::string time_left(std::chrono::seconds left) {
  if (left.count() < 0) return "-:--";
  const auto seconds = left.count();
  if (seconds >= 3600)
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string speed(double samples_per_second) {
  return samples_per_second > 0 ? fmt::format("{:.0f} samples/s", samples_per_second)
                                : "- samples/s";
}

int columns_of(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return 80;
}

}  // namespace

std::string draw_bar(const ProgressView& view, int columns) {
  const std::size_t width = static_cast<std::size_t>(std::max(columns, 20));
  const std::string total = fmt::format("{}", view.total);
  std::string facts =
      fmt::format(" {:>{}}/{}  {}  loss {:.4f}  ETA {}", view.step, total.size(), total,
                  speed(view.samples_per_second), view.loss, time_left(view.left));
  if (facts.size() + 8 > width) return facts.substr(1, width - 1);
  const std::size_t length = std::min<std::size_t>(width - facts.size() - 3, 40);
  const double share =
      view.total > 0
          ? std::clamp(static_cast<double>(view.step) / static_cast<double>(view.total), 0.0, 1.0)
          : 1.0;
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(length));
  std::string bar(filled, '=');
  if (filled < length) bar += '>';
  bar.resize(length, ' ');
  return fmt::format("[{}]{}", bar, facts);
}

std::string draw_line(const ProgressView& view) {
  return fmt::format("step {}/{}  {}  loss {:.4f}  ETA {}", view.step, view.total,
                     speed(view.samples_per_second), view.loss, time_left(view.left));
}

bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) == 1;
}

Progress::Progress(std::FILE* stream, std::int64_t total_steps, const ProgressOptions& options)
    : stream_(stream), total_(total_steps), options_(options) {
  if (options_.columns <= 0) options_.columns = columns_of(stream);
}

Progress::~Progress() {
  if (line_open_) std::fputc('\n', stream_);
  std::fflush(stream_);
}

void Progress::update(std::int64_t step, std::int64_t samples, double loss, Clock::time_point now) {
  if (timing_) {
    training_ += now - last_update_;
    samples_ += samples;
    ++timed_steps_;
  }
  timing_ = true;
  last_update_ = now;

  const bool must = !shown_ || step >= total_;
  if (!must && now - last_shown_ < (options_.live ? options_.redraw_every : options_.line_every))
    return;
  shown_ = true;
  last_shown_ = now;
  ProgressView view{step, total_, 0, loss, std::chrono::seconds(-1)};
  const double seconds = std::chrono::duration<double>(training_).count();
  if (timed_steps_ > 0 && seconds > 0) {
    view.samples_per_second = static_cast<double>(samples_) / seconds;
    const double left = seconds / static_cast<double>(timed_steps_) *
                        static_cast<double>(std::max<std::int64_t>(total_ - step, 0));
    view.left = std::chrono::seconds(static_cast<std::int64_t>(left + 0.5));
  }
  show(view);
}

void Progress::pause(Clock::time_point now) {
  if (timing_) training_ += now - last_update_;
  timing_ = false;
}

void Progress::show(const ProgressView& view) {
  if (options_.live) {
    // Erases the rest of a longer line.
    const std::string text = fmt::format("\r{}\x1b[K", draw_bar(view, options_.columns - 1));
    std::fwrite(text.data(), 1, text.size(), stream_);
    line_open_ = true;
  } else {
    const std::string text = draw_line(view) + "\n";
    std::fwrite(text.data(), 1, text.size(), stream_);
  }
  std::fflush(stream_);
}

}  // namespace paceline::observe
