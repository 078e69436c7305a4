// Cuts a stream of bytes into lines and puts a prefix before each.
//
// Pure: the same lines come out, however the stream is split into pieces. Only whole lines come
// out, so a writer that writes each batch in one go never mixes two lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::launch {

class LinePrefixer {
 public:
  static constexpr std::size_t kLongest = std::size_t{16}
                                          << 20;  // bytes of a line that are held back at most

  // A longer line comes out in pieces of `longest` bytes, each marked as a piece.
  explicit LinePrefixer(std::string prefix, std::size_t longest = kLongest);

  // Appends the lines that `bytes` completes to `out`.
  void feed(std::string_view bytes, std::string& out);

  // Ends the stream: a last line without a newline gets one.
  void finish(std::string& out);

 private:
  void begin_line(std::string& out);
  void end_line(std::string_view rest, std::string& out);
  void hold(std::string_view bytes, std::string& out);

  std::string prefix_;
  std::size_t longest_;
  std::string held_;        // the beginning of a line whose end has not come
  bool in_pieces_ = false;  // pieces of this line have come out already
};

}  // namespace paceline::launch
