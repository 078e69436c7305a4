#include "paceline/app/launch/output/log_files.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <tuple>
#include <utility>

#include "paceline/app/launch/process/program.h"
#include "paceline/core/base/number.h"

namespace paceline::launch {
namespace {

constexpr int kStdout = 1, kStderr = 2, kBoth = 3;

}  // namespace

Result<StreamMask> StreamMask::parse(std::string_view option, std::string_view text) {
  const Failure wrong{Fault::misuse,
                      fmt::format("{}: \"{}\" is no mask; write 0, 1 (stdout), 2 (stderr) or 3 "
                                  "(both), or by rank as in 0:1,1:3",
                                  option, text),
                      {}};
  if (const auto all = number_in<unsigned>(text))
    return *all <= kBoth ? Result<StreamMask>(StreamMask(*all)) : wrong;
  StreamMask mask(0);
  while (!text.empty()) {
    const auto part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const auto colon = part.find(':');
    if (colon == std::string_view::npos) return wrong;
    const auto rank = number_in<unsigned>(part.substr(0, colon)),
               streams = number_in<unsigned>(part.substr(colon + 1));
    if (!rank || !streams || *streams > kBoth) return wrong;
    mask.by_rank_[*rank] = *streams;
  }
  return mask.by_rank_.empty() ? Result<StreamMask>(wrong) : mask;
}

bool StreamMask::has(int rank, bool error) const {
  const auto own = by_rank_.find(rank);
  return ((own == by_rank_.end() ? everywhere_ : own->second) & (error ? kStderr : kStdout)) != 0;
}

LogFiles::LogFiles(LogOptions options, int ranks)
    : options_(std::move(options)),
      ranks_(ranks),
      start_(fmt::format("{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(std::time(nullptr)))) {
  if (options_.folder.empty()) return;
  if (!options_.folder.starts_with('/')) std::ignore = current_folder().value();
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error || ::access(options_.folder.c_str(), W_OK) != 0) {
    throw_misuse(fmt::format("--log-dir: {} cannot be written: {}; give a folder that can",
                             options_.folder, error ? error.message() : ::strerrordesc_np(errno)));
  }
}

void LogFiles::begin(int generation) {
  if (options_.folder.empty()) return;
  const bool is_first = here_.empty();
  files_.clear();
  launchers_ = {};
  const int error = make_folder(generation);
  has_folder_ = error == 0;
  if (has_folder_) return lead_to(here_.substr(options_.folder.size() + 1));
  if (is_first) throw Error(io_failure(fmt::format("--log-dir: cannot make {}", here_), error));
  ::unlink((options_.folder + "/latest").c_str());  // it leads to the generation before
  tell(here_, error);
}

// Another run may have begun in the same second. Returns errno.
int LogFiles::make_folder(int generation) {
  const std::string name = fmt::format("{}/{}.{}", options_.folder, start_, generation);
  here_ = name;
  for (int twin = 2; ::mkdir(here_.c_str(), 0777) != 0; ++twin) {
    if (errno != EEXIST) return errno;
    here_ = fmt::format("{}-{}", name, twin);
  }
  return 0;
}

// A link is replaced as a whole, so that `latest` is there at any time.
void LogFiles::lead_to(const std::string& name) {
  const std::string latest = options_.folder + "/latest", part = here_ + "/latest";
  if (::symlink(name.c_str(), part.c_str()) == 0 && ::rename(part.c_str(), latest.c_str()) == 0)
    return;
  tell(latest, errno);
  ::unlink(part.c_str());
}

std::string LogFiles::path(int rank) const {
  return rank < ranks_ ? fmt::format("{}/rank_{}.log", here_, rank)
                       : fmt::format("{}/server_{}.log", here_, rank - ranks_);
}

bool LogFiles::wants(int rank, bool error) const {
  return options_.redirects.has(rank, error) || options_.tees.has(rank, error);
}

bool LogFiles::have_everything() const {
  const bool all = options_.tees.is_everything() || options_.redirects.is_everything();
  return has_folder_ && all && !launchers_.is_lost &&
         std::ranges::none_of(files_, [](const auto& file) { return file.second.is_lost; });
}

std::string_view LogFiles::write(int rank, bool error, std::string_view lines) {
  if (options_.folder.empty() || !wants(rank, error) || lines.empty()) return {};
  return append(files_[rank], path(rank), lines);
}

void LogFiles::write_launchers(std::string_view text) {
  if (!here_.empty()) append(launchers_, here_ + "/launcher.log", text);
}

void LogFiles::write_verdict(std::string_view json) {
  if (options_.folder.empty()) return;
  File verdict;
  append(verdict, here_ + "/verdict.json", json);
}

std::string LogFiles::take_troubles() {
  return std::exchange(troubles_, {});
}

// A full disk must not end the training.
std::string_view LogFiles::append(File& file, const std::string& path, std::string_view text) {
  if (file.is_lost || !has_folder_) return text;
  if (!file.descriptor.is_open()) {
    file.descriptor = transport::FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    if (!file.descriptor.is_open()) {
      file.is_lost = true;
      tell(path, errno);
      return text;
    }
  }
  std::string_view left = text;
  while (!left.empty()) {
    const auto count = ::write(file.descriptor.get(), left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      file.is_lost = true;
      tell(path, count < 0 ? errno : ENOSPC);
      const auto written = text.substr(0, text.size() - left.size());
      return text.substr(written.rfind('\n') + 1);  // from the line that is not whole there
    }
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

void LogFiles::tell(const std::string& path, int error) {
  troubles_ += fmt::format(
      "paceline: --log-dir: {} cannot be written: {}; what would stand in it is printed here\n",
      path, ::strerrordesc_np(error));
}

}  // namespace paceline::launch
