#include "paceline/app/launch/output/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>

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

LogFiles::LogFiles(LogOptions options, int ranks) : options_(std::move(options)), ranks_(ranks) {
  if (options_.folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (error || ::access(options_.folder.c_str(), W_OK) != 0) {
    throw_misuse(fmt::format("--log-dir: {} cannot be written: {}; give a folder that can",
                             options_.folder, error ? error.message() : ::strerrordesc_np(errno)));
  }
}

std::string LogFiles::path(int rank) const {
  return rank < ranks_ ? fmt::format("{}/rank_{}.log", options_.folder, rank)
                       : fmt::format("{}/server_{}.log", options_.folder, rank - ranks_);
}

void LogFiles::write(int rank, bool error, std::string_view lines) {
  const bool wanted = options_.redirects.has(rank, error) || options_.tees.has(rank, error);
  if (options_.folder.empty() || !wanted || lines.empty()) return;
  append(files_[rank], path(rank), lines);
}

void LogFiles::write_launchers(std::string_view text) {
  if (!options_.folder.empty()) append(launchers_, options_.folder + "/launcher.log", text);
}

void LogFiles::append(transport::FileDescriptor& file, const std::string& path,
                      std::string_view text) {
  if (!file.is_open()) {
    file = transport::FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  }
  while (!text.empty()) {
    const auto count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // a full disk must not end the training
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace paceline::launch
