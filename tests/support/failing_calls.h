// A system call that fails, for tests of what a file system may answer.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <thread>

namespace paceline::test {

// From now on this system call (SYS_flock) fails with this errno in the calling thread and in those
// that it starts, for good. False: this machine does not allow it.
inline bool fail_calls_of_this_thread(long call, int error_number) {
  std::array<sock_filter, 4> steps = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K,
                           SECCOMP_RET_ERRNO | static_cast<unsigned>(error_number)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {static_cast<unsigned short>(steps.size()), steps.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs `body` in a thread of its own in which this system call fails. False: `body` was not run,
// because this machine does not allow it.
inline bool where_calls_fail(long call, int error_number, const std::function<void()>& body) {
  bool has_run = false;
  std::thread([&] {
    has_run = fail_calls_of_this_thread(call, error_number);
    if (has_run) body();
  }).join();
  return has_run;
}

// The calling thread loses the rights of root for good, who may read every file. False: it could
// not.
inline bool give_up_root_in_this_thread() {
  constexpr uid_t kNobody = 65534;
  return ::geteuid() != 0 || ::syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0;
}

}  // namespace paceline::test
