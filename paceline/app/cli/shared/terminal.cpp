#include "paceline/app/cli/shared/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace paceline::cli {

std::size_t terminal_columns(std::size_t otherwise) {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

}  // namespace paceline::cli
