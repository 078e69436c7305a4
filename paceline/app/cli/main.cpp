// The command `paceline`.
#include <fcntl.h>
#include <unistd.h>

#include "paceline/app/cli/cli.h"

namespace {

// The parent may have closed some of descriptors 0, 1, 2. A pipe must not take their place.
void open_standard_descriptors() {
  int fd = 0;
  while (fd >= 0 && fd < 3) fd = ::open("/dev/null", O_RDWR);
  if (fd >= 3) ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  return paceline::cli::run_cli({argv + (argc > 0 ? 1 : 0), argv + argc});
}
