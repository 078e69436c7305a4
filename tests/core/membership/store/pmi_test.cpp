// PMI-1 against a small process manager; the real one (MPICH's) is in tests/net.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "paceline/core/membership/store/exchange.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::membership {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers each line by the next of `answers`; returns what was asked.
class Manager {
 public:
  explicit Manager(std::vector<std::string> answers) {
    std::array<int, 2> ends;
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours = transport::FileDescriptor(ends[0]);
    theirs_ = transport::FileDescriptor(ends[1]);
    thread_ = std::jthread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        std::string line;
        for (char c = 0; c != '\n' && ::read(theirs_.get(), &c, 1) == 1;) line += c;
        asked_.push_back(line);
        if (::write(theirs_.get(), answer.data(), answer.size()) < 0) return;
      }
      theirs_.reset();
    });
  }
  // Ends the connection and gives what the manager was asked.
  std::vector<std::string> asked() {
    ours.reset();
    thread_.join();
    return asked_;
  }
  transport::FileDescriptor ours;

 private:
  transport::FileDescriptor theirs_;
  std::vector<std::string> asked_;
  std::jthread thread_;
};

Deadline patience() {
  return Deadline::in(std::chrono::seconds(30));
}

TEST(Pmi, Rank0TellsAndLeaves) {
  Manager manager({"cmd=my_kvsname kvsname=kvs_7\n", "cmd=put_result rc=0 msg=success\n",
                   "cmd=barrier_out\n", "cmd=finalize_ack\n"});
  EXPECT_TRUE(pmi_space(manager.ours.get())->tell("10.0.0.1:5", patience()));
  EXPECT_THAT(manager.asked(),
              ElementsAre("cmd=get_my_kvsname\n",
                          "cmd=put kvsname=kvs_7 key=paceline_store value=10.0.0.1:5\n",
                          "cmd=barrier_in\n", "cmd=finalize\n"));
}

TEST(Pmi, OthersHearAfterTheBarrier) {
  Manager manager({"cmd=my_kvsname kvsname=kvs_7\n", "cmd=barrier_out\n",
                   "cmd=get_result rc=0 msg=success value=10.0.0.1:5\n", "cmd=finalize_ack\n"});
  EXPECT_EQ(pmi_space(manager.ours.get())->hear(patience()).value(), "10.0.0.1:5");
  EXPECT_THAT(manager.asked()[2], HasSubstr("cmd=get kvsname=kvs_7 key=paceline_store"));
}

TEST(Pmi, AManagerThatSpeaksOtherwiseOrIsGoneIsNamedWithTheRemedy) {
  Manager strange({"what?\n"});
  const auto name = pmi_space_name(strange.ours.get());
  ASSERT_FALSE(name);
  EXPECT_THAT(name.error().what, HasSubstr("what?"));
  EXPECT_THAT(name.error().what, HasSubstr("PACELINE_STORE"));
  Manager gone({});
  gone.asked();
  ::signal(SIGPIPE, SIG_IGN);
  EXPECT_FALSE(pmi_space_name(gone.ours.get()));
}

}  // namespace
}  // namespace paceline::membership
