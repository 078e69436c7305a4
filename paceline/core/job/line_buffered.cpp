#include "paceline/core/job/line_buffered.h"

#include <stdio_ext.h>
#include <sys/stat.h>

namespace paceline::job {
namespace {

// The C library gives a stream its buffer with the first byte: a block of its file.
bool has_own_buffer(std::FILE* stream) {
  const std::size_t size = ::__fbufsize(stream);
  struct stat file = {};
  const bool is_known = ::fstat(::fileno(stream), &file) == 0 && file.st_blksize > 0;
  return size != 0 && size != (is_known ? static_cast<std::size_t>(file.st_blksize) : BUFSIZ);
}

}  // namespace

void buffer_lines(std::FILE* stream) {
  if (::__flbf(stream) == 0 && !has_own_buffer(stream))
    std::setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
}

}  // namespace paceline::job
