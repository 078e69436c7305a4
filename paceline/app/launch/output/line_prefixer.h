// Cuts a stream of bytes into lines and puts a prefix before each.
//
// Pure: the same lines come out, however the stream is split into pieces. Only whole lines come
// out, so a writer that writes each batch in one go never mixes two lines. On a terminal the
// beginning of a line may be shown before its end comes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace paceline::launch {

class LinePrefixer {
 public:
  static constexpr std::size_t kLongest = std::size_t{16}
                                          << 20;  // bytes of a line that are held back at most
  struct Options {
    std::string prefix = {};
    std::function<std::string()> stamp = {};  // comes after the prefix, if there is one
    // After a carriage return a program writes over its line; the prefix is then written again.
    bool redraws = false;
    // The most bytes that one line of the output has; longer lines are cut, and the pieces say so.
    std::size_t longest = kLongest;
  };

  explicit LinePrefixer(Options options);

  // Appends the lines that `bytes` completes to `out`.
  void feed(std::string_view bytes, std::string& out);

  // Ends the stream: a last line without a newline gets one.
  void finish(std::string& out);

  bool holds() const { return !held_.empty(); }  // the beginning of a line
  // Appends the held beginning of a line. The line stays open until its end, or interrupt().
  void show(std::string& out);
  bool is_open() const { return is_open_; }
  // The open line was ended by others: what follows of it begins a line of its own.
  void interrupt() { is_open_ = false; }

 private:
  void begin_line(std::string& out);
  void append(std::string_view text, std::string& out);
  void end_line(std::string_view rest, std::string& out);
  void hold(std::string_view bytes, std::string& out);

  Options options_;
  std::string held_;         // the beginning of a line whose end has not come
  bool in_pieces_ = false;   // pieces of this line have come out already
  bool is_open_ = false;     // its beginning was shown
  bool is_redrawn_ = false;  // the last byte that came out was a carriage return
};

}  // namespace paceline::launch
