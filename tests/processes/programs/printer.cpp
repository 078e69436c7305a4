// One rank of a job that prints checked lines by printf and dies by SIGKILL at a random moment.
//
//   printer SEED FOLDER     how many lines it had printed stands in FOLDER/rank_R, as an integer
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "paceline/core/job/job.h"
#include "tests/processes/programs/checked_line.h"

namespace {

constexpr int kLines = 1000;

// A number in a file, which outlives this process.
volatile int& number_in(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(int)) != 0) std::_Exit(99);
  void* const memory = ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return *static_cast<int*>(memory);
}

void die_after(std::chrono::microseconds life) {
  sigevent by_kill = {};
  by_kill.sigev_notify = SIGEV_SIGNAL;
  by_kill.sigev_signo = SIGKILL;
  timer_t timer = {};
  itimerspec at = {};
  at.it_value.tv_nsec = 1 + std::chrono::nanoseconds(life).count();
  if (::timer_create(CLOCK_MONOTONIC, &by_kill, &timer) != 0 ||
      ::timer_settime(timer, 0, &at, nullptr) != 0)
    std::_Exit(99);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  paceline::Job job = paceline::init();
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[1]) + job.rank()));
  volatile int& printed = number_in(std::string(argv[2]) + "/rank_" + std::to_string(job.rank()));
  die_after(std::chrono::microseconds(random() % 6000));
  for (int line = 0; line < kLines; ++line) {
    std::printf("%s\n", paceline::test::checked_line(job.rank(), line, random() % 200).c_str());
    printed = line + 1;
  }
  while (true) ::pause();
}
