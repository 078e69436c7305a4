#include "examples/support/program_output.h"

#include <gmock/gmock.h>

namespace examples {
namespace {

std::string failure_of_program(std::vector<std::string> command, std::size_t most_bytes = 100) {
  const auto output = output_of_program(std::move(command), most_bytes);
  return output ? "" : output.error().what;
}

TEST(ProgramOutput, IsAllThatTheProgramWritesAndItReadsNothing) {
  EXPECT_EQ(output_of_program({"/bin/sh", "-c", "cat; printf 'a\\0b\\n'"}, 4).value(),
            std::string("a\0b\n", 4));
  EXPECT_EQ(output_of_program({"/usr/bin/env"}, 100).value(), "") << "its environment is empty";
  EXPECT_EQ(output_of_program({"/usr/bin/head", "-c", "1000000", "/dev/zero"}, 1000000).value(),
            std::string(1000000, '\0'));
}

TEST(ProgramOutput, AProgramThatIsMissingFailsOrTalksWithoutEndIsAFailure) {
  EXPECT_EQ(failure_of_program({"/nowhere/bible"}),
            "cannot start /nowhere/bible: No such file or directory");
  EXPECT_EQ(failure_of_program({"/bin/sh", "-c", "echo half; exit 3"}),
            "/bin/sh ended with status 3");
  EXPECT_EQ(failure_of_program({"/bin/sh", "-c", "kill -9 $$"}), "/bin/sh was ended by signal 9");
  EXPECT_EQ(failure_of_program({"/usr/bin/yes"}), "/usr/bin/yes wrote more than 100 bytes");
}

}  // namespace
}  // namespace examples
