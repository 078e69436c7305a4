// Awaited: for whom a worker waits, put together from what servers say and do not say.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::coordination {

// A value.
class Awaited {
 public:
  // The member "has not <done>": made its table, pushed at clock 3.
  void lacks(int member, std::string_view done) { lacking_[std::string(done)].insert(member); }
  // The server was asked and says nothing.
  void is_silent(int server) { silent_.insert(server); }
  // The server waits for nobody: its answer is under way.
  void answers(int server) { answering_.insert(server); }

  // Those whom the wait blames: the ones that lack something, and silent servers.
  std::vector<int> blamed() const;
  // "rank 1, which has not pushed at clock 3; server 0, which does not answer". `name_of` names a
  // member.
  std::string text(const std::function<std::string(int)>& name_of) const;

 private:
  std::map<std::string, std::set<int>> lacking_;
  std::set<int> silent_, answering_;
};

// "rank 1, 2"; "rank 1, server 0".
std::string names_of(const std::vector<int>& members,
                     const std::function<std::string(int)>& name_of);

}  // namespace paceline::coordination
