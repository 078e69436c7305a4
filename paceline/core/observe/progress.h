// Shows the progress of a loop of known length: a live bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "paceline/core/base/deadline.h"

namespace paceline::observe {

// The figures shown, as a value, so that drawing can be tested without a terminal or a clock.
struct ProgressView {
  std::int64_t step = 0;
  std::int64_t total = 0;
  double samples_per_second = 0;  // 0: unknown yet
  double loss = 0;
  std::chrono::seconds left = {};  // estimated; negative: unknown yet
  bool operator==(const ProgressView&) const = default;
};

// "[=========>          ]  120/ 400  5321 samples/s  loss 0.4312  ETA 0:12", never wider than
// `columns` (at least 20).
std::string draw_bar(const ProgressView& view, int columns);
// "step 120/400  5321 samples/s  loss 0.4312  ETA 0:12"
std::string draw_line(const ProgressView& view);

struct ProgressOptions {
  bool live = false;  // redraw one line in place, which suits a terminal (is_terminal())
  int columns = 0;    // 0: the terminal's width, or 80 if that is unknown
  std::chrono::milliseconds redraw_every{
      100};  // live: often enough to look alive, too rare to cost anything
  std::chrono::milliseconds line_every{std::chrono::seconds(5)};  // plain lines
};

bool is_terminal(std::FILE* stream);

// Draws on `stream`, which it does not own. The first step and the last one are always shown.
// THREAD: one. COST: a clock reading for each update; a short write at most every `redraw_every` or
// `line_every`.
class Progress {
 public:
  Progress(std::FILE* stream, std::int64_t total_steps, const ProgressOptions& options);
  ~Progress();  // leaves the terminal on a fresh line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Step `step` (from 1) has ended and processed `samples` more samples.
  void update(std::int64_t step, std::int64_t samples, double loss,
              Clock::time_point now = Clock::now());
  // The time from here to the next update() does not count as training (an evaluation, a
  // checkpoint).
  void pause(Clock::time_point now = Clock::now());

 private:
  void show(const ProgressView& view);

  std::FILE* stream_;
  std::int64_t total_;
  ProgressOptions options_;
  // Time of the steps so far, the first one (which warms up) and pauses left out.
  Clock::duration training_{};
  Clock::time_point last_update_{};
  Clock::time_point last_shown_{};
  std::int64_t samples_ = 0, timed_steps_ = 0;
  bool timing_ = false, shown_ = false, line_open_ = false;
};

}  // namespace paceline::observe
