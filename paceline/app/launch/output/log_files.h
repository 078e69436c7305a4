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
  bool is_everything() const { return by_rank_.empty() && everywhere_ == 3; }
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

// Writes rank_<n>.log and server_<n>.log, with whole lines and without a prefix, launcher.log and
// verdict.json into a folder of each generation: <folder>/<start of the run>.<generation>, to which
// <folder>/latest leads. Servers have the numbers from `ranks` on.
class LogFiles {
 public:
  // Makes the folder. THROWS Error (misuse) when it cannot be written.
  explicit LogFiles(LogOptions options, int ranks = INT_MAX);

  // A generation begins, in a new folder. THROWS Error (io): the first one cannot be made. Later on
  // that is told, and all lines come back: a restart goes on without its files.
  void begin(int generation);

  // Whether the masks let the terminal have the stream.
  bool shows(int rank, bool error) const {
    return options_.folder.empty() || !options_.redirects.has(rank, error);
  }
  // Each line of each stream is in a file, which still can be written.
  bool have_everything() const;

  // Returns the lines that could not be written. The file is lost from then on.
  std::string_view write(int rank, bool error, std::string_view lines);
  // A text of the launcher's own, into launcher.log.
  void write_launchers(std::string_view text);
  void write_verdict(std::string_view json);
  // Sentences on files that were lost since the last call.
  std::string take_troubles();

  std::string path(int rank) const;
  const std::string& folder() const { return here_; }  // of the present generation

 private:
  struct File {
    transport::FileDescriptor descriptor = {};
    bool is_lost = false;
  };
  bool wants(int rank, bool error) const;
  std::string_view append(File& file, const std::string& path, std::string_view text);
  int make_folder(int generation);
  void lead_to(const std::string& name);
  void tell(const std::string& path, int error);

  const LogOptions options_;
  const int ranks_;
  const std::string start_;
  std::string here_, troubles_;
  bool has_folder_ = false;  // of the present generation
  std::map<int, File> files_;
  File launchers_;
};

}  // namespace paceline::launch
