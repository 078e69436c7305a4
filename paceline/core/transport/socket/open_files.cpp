#include "paceline/core/transport/socket/open_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <string>
#include <system_error>

#include "paceline/core/base/number.h"

namespace paceline::transport {
namespace {

// Those with numbers below `limit`; all of them are taken where none is left to look with.
std::size_t open_files(std::size_t limit) {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  if (error == std::errc::too_many_files_open) return limit;
  if (error) return 0;
  std::size_t open = 0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto number = number_in<std::size_t>(entry->path().filename().string());
    open += number && *number < limit ? 1 : 0;
  }
  return open - 1;  // the directory was one of them
}

}  // namespace

Result<> make_room_for_files(std::size_t more, std::string_view who) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Done{};
  const std::size_t open = open_files(limit.rlim_cur), need = open + more;
  if (need <= limit.rlim_cur) return Done{};
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (need <= limit.rlim_max) return Done{};
  return Failure{
      Fault::io,
      fmt::format("{} needs {} open files ({} are open, and {} more are to come), and its "
                  "limit is {} (RLIMIT_NOFILE): raise it before the start, such as by "
                  "`ulimit -n {}`, LimitNOFILE= of systemd or --ulimit nofile= of docker",
                  who, need, open, more, limit.rlim_max,
                  std::bit_ceil(std::max<std::size_t>(need, 512)) * 2),
      {}};
}

}  // namespace paceline::transport
