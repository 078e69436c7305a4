#include "paceline/core/job/line_buffered.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

namespace paceline::job {
namespace {

// The bytes that have left a stream into a pipe.
std::string left_by(const std::function<void(std::FILE*)>& program) {
  std::array<int, 2> ends;
  EXPECT_EQ(::pipe(ends.data()), 0);
  std::FILE* const stream = ::fdopen(ends[1], "w");
  std::fputs("before ", stream);
  program(stream);
  std::fputs("a line\nand the beginning of another", stream);
  std::array<char, 4096> bytes;
  const int marked = static_cast<int>(::write(ends[1], "|", 1));
  EXPECT_EQ(marked, 1);
  const auto count = ::read(ends[0], bytes.data(), bytes.size());
  std::fclose(stream);
  ::close(ends[0]);
  return {bytes.data(), static_cast<std::size_t>(count - 1)};
}

TEST(LineBuffered, ALineLeavesTheProcessAsItIsWrittenThoughTextWasWrittenBefore) {
  EXPECT_EQ(left_by([](std::FILE*) {}), "") << "the C library waits for a block";
  EXPECT_EQ(left_by(buffer_lines).substr(0, 14), "before a line\n");
}

TEST(LineBuffered, ABufferOfTheProgramsStaysWhole) {
  std::array<char, 1000> buffer;
  EXPECT_EQ(left_by([&](std::FILE* stream) {
              std::fflush(stream);
              std::setvbuf(stream, buffer.data(), _IOFBF, buffer.size());
              buffer_lines(stream);
            }),
            "before ");
}

}  // namespace
}  // namespace paceline::job
