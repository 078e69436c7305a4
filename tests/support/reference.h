// Every operation with every element type and every reduction, against one plain reference that
// works on numbers. Shared by the tests of threads and by the program that runs under launchers.
#pragma once

#include <stdexcept>
#include <string_view>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"

namespace paceline::test {

// A claim that does not hold throws it.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How an operation is carried out: by an algorithm, or by the communicator's choice (no name).
struct Way {
  Operation operation;
  std::string_view algorithm;
};
std::vector<Way> ways_of_the_catalogue(int ranks);  // those that fit
std::vector<Way> chosen_ways();                     // each operation once

// THROWS Broken with the first element that differs. Each of five rounds takes other lengths. A
// single round alternates reductions in place and out of place; several rounds do both.
void is_the_reference(Job& job, Communicator& group, const std::vector<Way>& ways, int rounds);

}  // namespace paceline::test
