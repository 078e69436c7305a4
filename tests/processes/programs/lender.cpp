// A worker that lends its buffers to all_reduces without end, for the test of memory after a failed
// call.
//
//   lender BYTES allocated|ordinary ALGORITHM|board in_place|apart OFFSET
//
// It says "ready PID", and sums up buffers that begin OFFSET bytes after the start of a page. Each
// call must end within 0.3 s. When one fails:
//
//   rank 0     uses its buffers for something else, says "released", waits for SIGUSR1, and says
//              "kept" if its buffers hold what it wrote there, else "overwritten COUNT"
//   rank 1     says "failed FAULT: TEXT"
//
// A call of rank 1 that took long and succeeded is checked: "lied COUNT" gives the number of wrong
// elements.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"
#include "paceline/core/membership/membership.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr float kInput = 1;  // that of rank 0; rank 1 brings twice as much
// the value that rank 0 writes over inputs that no rank may use any more
constexpr float kReused = 1e6;
constexpr float kMarked = -7;  // and over outputs
constexpr std::size_t kPage = 4096;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

struct Lent {
  std::span<float> input, output;
  bool in_place() const { return input.data() == output.data(); }
  // In place the input is that of all ranks after the first call.
  float sum() const { return in_place() ? 2 * kInput : 3 * kInput; }
};

std::span<float> floats(std::byte* at, std::size_t bytes) {
  return {reinterpret_cast<float*>(at), bytes / sizeof(float)};
}

// In place every second element would show that an input was read late, and the others that an
// output was written late.
float reused(const Lent& lent, std::size_t i) {
  return lent.in_place() && i % 2 == 1 ? kMarked : kReused;
}

void reuse(const Lent& lent) {
  if (!lent.in_place()) std::ranges::fill(lent.output, kMarked);
  for (std::size_t i = 0; i < lent.input.size(); ++i) lent.input[i] = reused(lent, i);
}

std::size_t overwritten(const Lent& lent) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < lent.input.size(); ++i) count += lent.input[i] != reused(lent, i);
  if (!lent.in_place())
    count +=
        lent.output.size() - static_cast<std::size_t>(std::ranges::count(lent.output, kMarked));
  return count;
}

void wait_for_signal() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGUSR1);
  const timespec longest{.tv_sec = 20, .tv_nsec = 0};
  if (::sigtimedwait(&wanted, nullptr, &longest) != SIGUSR1) say("nobody signalled");
}

void reduce_for_ever(paceline::Job& job, const Lent& lent, const std::string& algorithm) {
  const auto op = lent.in_place() ? paceline::ReduceOp::max : paceline::ReduceOp::sum;
  while (true) {
    const auto begin = Clock::now();
    job.world()
        .all_reduce(paceline::const_buffer_of(lent.input), paceline::buffer_of(lent.output),
                    {.op = op, .algorithm = algorithm, .within = 300ms})
        .wait();
    if (job.rank() == 0 || Clock::now() - begin < 100ms) continue;
    const auto wrong =
        lent.output.size() - static_cast<std::size_t>(std::ranges::count(lent.output, lent.sum()));
    if (wrong > 0) say(fmt::format("lied {}", wrong));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::size_t bytes = std::strtoull(argv[1], nullptr, 10);
  const std::string kind = argv[2], algorithm = argv[3], place = argv[4];
  const std::size_t offset = std::strtoull(argv[5], nullptr, 10);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);  // also in the threads that begin later

  paceline::Job job = paceline::init();
  const std::size_t each = (offset + bytes + kPage - 1) / kPage * kPage;
  paceline::Allocation allocated;
  std::vector<std::byte> ordinary;
  if (kind == "allocated") allocated = job.allocate(2 * each);
  else ordinary.resize(2 * each);
  std::byte* const memory = (kind == "allocated" ? allocated.data() : ordinary.data()) + offset;
  const Lent lent{floats(memory, bytes),
                  floats(place == "in_place" ? memory : memory + each, bytes)};
  std::ranges::fill(lent.input, kInput * static_cast<float>(job.rank() + 1));
  say(fmt::format("ready {}", ::getpid()));
  try {
    reduce_for_ever(job, lent, algorithm == "board" ? "" : algorithm);
  } catch (const paceline::Error& error) {
    if (job.rank() == 0) {
      reuse(lent);
      say("released");
      wait_for_signal();
      const std::size_t count = overwritten(lent);
      say(count == 0 ? "kept" : fmt::format("overwritten {}", count));
    }
    say(fmt::format("failed {}: {}", name_of(error.fault()), error.what()));
  }
  return 1;
}
