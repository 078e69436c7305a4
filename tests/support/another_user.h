// A process of another user, for tests that such processes are kept out.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace paceline::test {

// Runs `body` in a child process that has the user id of nobody, and keeps the child alive until
// this object is destroyed. REQUIRES: this process is root's; `body` takes no lock that another
// thread may hold (the allocator's, for one).
class AnotherUser {
 public:
  explicit AnotherUser(const std::function<void()>& body) : child_(::fork()) {
    if (child_ != 0) return;
    constexpr uid_t kNobody = 65534;
    if (::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    body();
    for (;;) ::pause();
  }
  ~AnotherUser() {
    ::kill(child_, SIGKILL);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
  }
  AnotherUser(const AnotherUser&) = delete;
  AnotherUser& operator=(const AnotherUser&) = delete;

 private:
  const pid_t child_;
};

}  // namespace paceline::test
