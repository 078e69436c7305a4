// One rank of a job that prints checked lines by printf and dies by SIGKILL at a random moment.
//
//   printer SEED FOLDER     how many lines it had printed stands in FOLDER/rank_R, as an integer
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  paceline::Job job = paceline::init();
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[1]) + job.rank()));
  volatile int& printed = number_in(std::string(argv[2]) + "/rank_" + std::to_string(job.rank()));
  const std::chrono::microseconds life(random() % 20'000);
  std::thread([life] {
    std::this_thread::sleep_for(life);
    ::kill(::getpid(), SIGKILL);
  }).detach();
  for (int line = 0; line < kLines; ++line) {
    std::printf("%s\n", paceline::test::checked_line(job.rank(), line, random() % 200).c_str());
    printed = line + 1;
    if (line % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  while (true) ::pause();
}
