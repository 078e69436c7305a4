#include "paceline/core/transport/memory/process_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::transport {
namespace {

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

TEST(ProcessMemory, WithItsTokenCanBeReached) {
  EXPECT_TRUE(can_reach(own_remote_memory()));
}

// A rank tries the memory of one that may have left the group meanwhile.
TEST(ProcessMemory, IsFoundAtOnePlaceForTheWholeLifeOfItsProcess) {
  const RemoteMemory memory = own_remote_memory();
  EXPECT_EQ(own_remote_memory().address, memory.address);
  EXPECT_EQ(own_remote_memory().token, memory.token);
}

TEST(ProcessMemory, OfAProcessThatIsNotTheOneThatWasMeantIsNotReached) {
  RemoteMemory other_token = own_remote_memory(), other_place = other_token, nobody = other_token;
  ++other_token.token;
  other_place.address = 8;
  nobody.process = 0x7FFF'FFFF;
  for (const RemoteMemory& memory : {other_token, other_place, nobody, RemoteMemory{}})
    EXPECT_FALSE(can_reach(memory));
}

TEST(ProcessMemory, IsReadWholeOrNotAtAll) {
  constexpr std::size_t kPage = 4096;
  void* const two =
      ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(two, MAP_FAILED);
  std::memset(two, 7, 2 * kPage);
  std::vector<std::byte> read(2 * kPage);
  EXPECT_TRUE(read_memory(own_remote_memory(), address_of(two), read));
  EXPECT_EQ(read, std::vector<std::byte>(2 * kPage, std::byte{7}));
  EXPECT_TRUE(read_memory(own_remote_memory(), address_of(two), {})) << "nothing is always there";
  ASSERT_EQ(::munmap(static_cast<std::byte*>(two) + kPage, kPage), 0);
  EXPECT_FALSE(read_memory(own_remote_memory(), address_of(two), read));
  ::munmap(two, kPage);
}

TEST(ProcessMemory, IsWrittenUntilItIsForbidden) {
  WritesForbidden forbidden = 0;
  WriteUnderWay under_way = {};
  std::vector<std::byte> target(10'000), source(target.size(), std::byte{3});
  const auto write = [&](std::uint64_t address) {
    return write_memory(own_remote_memory(), forbidden, under_way, address, source);
  };
  EXPECT_TRUE(write(address_of(target.data())));
  EXPECT_EQ(target, source);
  EXPECT_FALSE(write(8)) << "nobody has memory there";
  forbidden = 1;
  EXPECT_TRUE(end_write(own_remote_memory(), own_remote_memory(), under_way, {}));
  std::ranges::fill(source, std::byte{4});
  EXPECT_FALSE(write(address_of(target.data())));
  EXPECT_EQ(target, std::vector<std::byte>(target.size(), std::byte{3}));
}

// --- a writer in a process of its own ------------------------------------------------------------

constexpr std::size_t kTargetBytes = 256 << 10;

// A child, which its end as an object ends.
class Writer {
 public:
  explicit Writer(const std::function<int()>& body) : process_(::fork()) {
    if (process_ == 0) ::_exit(body());
  }
  ~Writer() {
    if (ended_) return;
    kill(SIGKILL);
    wait();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  pid_t process() const { return process_; }
  RemoteMemory memory() const { return {.process = process_}; }
  void kill(int signal) const { ::kill(process_, signal); }
  int wait() {
    int status = -1;
    ::waitpid(process_, &status, 0);
    ended_ = !WIFSTOPPED(status);
    return status;
  }
  bool ends_well() {
    const int status = wait();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  const pid_t process_;
  bool ended_ = false;
};

class ProcessMemoryOfAnother : public ::testing::Test {
 protected:
  struct Shared {
    WritesForbidden forbidden;
    WriteUnderWay under_way;
  };

  void SetUp() override {
    void* const page =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page, MAP_FAILED);
    shared_ = new (page) Shared{};
    if (!Writer([this] { return can_reach(own_memory_) ? 0 : 1; }).ends_well())
      GTEST_SKIP() << "a child may not reach its parent's memory here";
  }
  void TearDown() override { ::munmap(shared_, sizeof(Shared)); }

  bool write(std::byte value) {
    const std::vector<std::byte> source(kTargetBytes, value);
    return write_memory(own_memory_, shared_->forbidden, shared_->under_way,
                        address_of(target_.data()), source);
  }
  bool forbid(const Writer& writer, Deadline deadline = Deadline::in(std::chrono::seconds(20))) {
    shared_->forbidden = 1;
    return end_write(own_memory_, writer.memory(), shared_->under_way, deadline);
  }
  bool holds(std::byte value) const {
    return std::ranges::all_of(target_, [=](std::byte b) { return b == value; });
  }

  const RemoteMemory own_memory_ = own_remote_memory();
  std::vector<std::byte> target_ = std::vector<std::byte>(kTargetBytes);
  Shared* shared_ = nullptr;
};

// At this one moment only the system can take back the write that is about to begin.
TEST_F(ProcessMemoryOfAnother, IsNotWrittenByWhoWasStoppedAtTheSystemsDoorAndGoesOnLater) {
  Writer writer([this] {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 0;
    ::raise(SIGSTOP);
    return write(std::byte{9}) ? 1 : 0;
  });
  if (!WIFSTOPPED(writer.wait())) GTEST_SKIP() << "nobody may be traced here";
  ::ptrace(PTRACE_SETOPTIONS, writer.process(), nullptr, PTRACE_O_TRACESYSGOOD);
  for (bool at_door = false; !at_door;) {
    ASSERT_EQ(::ptrace(PTRACE_SYSCALL, writer.process(), nullptr, nullptr), 0);
    ASSERT_TRUE(WIFSTOPPED(writer.wait()));
    __ptrace_syscall_info call = {};
    ASSERT_GT(::ptrace(PTRACE_GET_SYSCALL_INFO, writer.process(), sizeof call, &call), 0);
    at_door = call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_process_vm_writev;
  }
  EXPECT_TRUE(forbid(writer));
  std::ranges::fill(target_, std::byte{1});  // the buffer is its owner's again
  ASSERT_EQ(::ptrace(PTRACE_DETACH, writer.process(), nullptr, nullptr), 0);
  EXPECT_TRUE(writer.ends_well()) << "the writer believes that it has written";
  EXPECT_TRUE(holds(std::byte{1}));
}

TEST_F(ProcessMemoryOfAnother, StaysAsItIsOnceAWriteWasEndedWhereverTheWriterIs) {
  SeededNumbers numbers(test::seed(5));
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    new (shared_) Shared{};
    std::ranges::fill(target_, std::byte{0});
    Writer writer([this] {
      for (int value = 0; write(static_cast<std::byte>(2 + value % 100)); ++value) {
      }
      return 0;
    });
    while (target_[0] == std::byte{0}) std::this_thread::yield();  // until it has begun to write
    std::this_thread::sleep_for(std::chrono::microseconds(numbers.below(300)));
    const bool dies = round % 3 == 1;
    if (round % 3 == 0) writer.kill(SIGSTOP);
    if (dies) writer.kill(SIGKILL);
    ASSERT_TRUE(forbid(writer));
    std::ranges::fill(target_, std::byte{1});
    writer.kill(SIGCONT);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    EXPECT_TRUE(holds(std::byte{1}));
    EXPECT_NE(writer.ends_well(), dies);
  }
}

TEST_F(ProcessMemoryOfAnother, IsNotWaitedForLongerThanToldWhereAWriterSaysThatItCopiesForEver) {
  Writer liar([this] {
    shared_->under_way.thread = ::getpid();
    shared_->under_way.receiver = own_memory_.process;
    while (true) {
    }
    return 0;
  });
  while (shared_->under_way.receiver == 0) std::this_thread::yield();
  EXPECT_FALSE(forbid(liar, Deadline::in(std::chrono::milliseconds(20))));
  liar.kill(SIGKILL);
  EXPECT_FALSE(liar.ends_well());
  EXPECT_TRUE(forbid(liar)) << "the dead do not write";
}

}  // namespace
}  // namespace paceline::transport
