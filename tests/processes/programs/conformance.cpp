// Goes through the claims of tests/support/conformance.h as one rank of a job.
//
//   conformance           those that leave the job alive, one after the other
//   conformance CLAIM     that one
//
// Says "held CLAIM" for each on stdout, or "broken CLAIM: TEXT" and ends with 1.
#include "tests/support/conformance.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "paceline/core/job/job.h"

namespace {

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

bool holds(const paceline::test::Claim& claim, paceline::Job& job) {
  try {
    claim.check(job, job.world());
  } catch (const std::exception& error) {
    say(fmt::format("broken {}: {}", claim.name, error.what()));
    return false;
  }
  say(fmt::format("held {}", claim.name));
  return true;
}

int go_through(const std::string& wanted) {
  paceline::Job job = paceline::init();
  for (const auto& claim : paceline::test::conformance()) {
    const bool is_wanted = wanted.empty() ? !claim.ends_generation : claim.name == wanted;
    if (is_wanted && !holds(claim, job)) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return go_through(argc > 1 ? argv[1] : "");
  } catch (const paceline::Error& error) {
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
    return 1;
  }
}
