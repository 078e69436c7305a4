// Lines of a program leave it as they are written, though a launcher reads them through a pipe: one
// that dies would else take up to 4 KiB of them along.
#pragma once

#include <cstdio>

namespace paceline::job {

// Makes `stream` line-buffered unless the program has made it unbuffered or has given it a buffer
// of another size than the usual one (setvbuf). To have blocks of the usual size, a program calls
// setvbuf after init().
void buffer_lines(std::FILE* stream);

}  // namespace paceline::job
