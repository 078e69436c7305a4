// Awaited: for whom a member of a job waits, put together from what others say and do not say, and
// the words of such a wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::coordination {

// A value. Texts take the number of the job's ranks, since members with higher numbers are servers
// and have names of their own.
class Awaited {
 public:
  // The member "has not <done>": made its table, pushed at clock 3.
  void lacks(int member, std::string_view done) { lacking_[std::string(done)].insert(member); }
  // The server was asked and says nothing.
  void is_silent(int server) { silent_.insert(server); }
  // The server waits for nobody: its answer is under way.
  void answers(int server) { answering_.insert(server); }
  // A server that was silent cannot answer yet: data come from it, and its answer behind them.
  void is_sending(int server) {
    silent_.erase(server);
    answering_.insert(server);
  }
  // The same, for the question is behind data that are on their way to it.
  struct Sending {
    std::uint64_t bytes = 0;     // that have not reached it
    std::uint64_t a_second = 0;  // bytes that reach it in a second now
  };
  void is_being_sent(int server, const Sending& what) {
    silent_.erase(server);
    sending_[server] = what;
  }

  const std::set<int>& silent() const { return silent_; }
  // Those whom the wait blames: the ones that lack something, and silent servers.
  std::vector<int> blamed() const;
  // Servers to which data are still on their way.
  std::vector<int> being_sent() const;
  // "rank 1, which has not pushed at clock 3; server 0, which does not answer"
  std::string text(int ranks) const;

 private:
  std::map<std::string, std::set<int>> lacking_;
  std::set<int> silent_, answering_;
  std::map<int, Sending> sending_;
};

// How long answers are waited for: a member that is there answers sooner.
std::chrono::nanoseconds answers_within(std::chrono::nanoseconds timeout);

// "stall: for 5 s rank 0 waits in pull of table 'w' for rank 1, which has not ..".
std::string stall_text(std::chrono::nanoseconds stall, const std::string& waits);

// "deadline: rank 0 waits in .. for rank 1, which has not ..; look at what rank 1 does. .."
Failure deadline_failure(const std::string& waits, const Awaited& awaited, int ranks);

}  // namespace paceline::coordination
