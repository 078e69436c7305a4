// Log files, one for each rank, and the choice of streams that appear on the terminal too.
#pragma once

#include <climits>
#include <map>
#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

// torchrun's masks: 0 nothing, 1 stdout, 2 stderr, 3 both; "3" holds for every rank, "0:1,1:2" for
// the named ranks (others: 0).
class StreamMask {
 public:
  explicit StreamMask(int everywhere = 0) : everywhere_(everywhere) {}
  static Result<StreamMask> parse(std::string_view option,
                                  std::string_view text);  // misuse shows what is wrong
  bool has(int rank, bool error) const;
  bool operator==(const StreamMask&) const = default;

 private:
  int everywhere_;
  std::map<int, int> by_rank_;
};

struct LogOptions {
  std::string folder = {};               // empty: no files
  StreamMask redirects = StreamMask(0);  // only to the file
  StreamMask tees = StreamMask(3);       // to the file and to the terminal
};

// Writes <folder>/rank_<n>.log and <folder>/server_<n>.log, with whole lines and without a prefix,
// and <folder>/launcher.log. Servers have the numbers from `ranks` on.
class LogFiles {
 public:
  // Makes the folder. THROWS Error (misuse) when it cannot be written.
  explicit LogFiles(LogOptions options, int ranks = INT_MAX);

  bool shows(int rank, bool error) const {
    return options_.folder.empty() || !options_.redirects.has(rank, error);
  }
  void write(int rank, bool error, std::string_view lines);
  // A text of the launcher's own, into <folder>/launcher.log.
  void write_launchers(std::string_view text);
  std::string path(int rank) const;

 private:
  const LogOptions options_;
  const int ranks_;
  static void append(transport::FileDescriptor& file, const std::string& path,
                     std::string_view text);

  std::map<int, transport::FileDescriptor> files_;
  transport::FileDescriptor launchers_;
};

}  // namespace paceline::launch
