#include "paceline/core/coordination/awaited.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/membership/handshake/member_name.h"

namespace paceline::coordination {
namespace {

using membership::member_names;

std::vector<int> listed(const std::set<int>& members) {
  return {members.begin(), members.end()};
}

}  // namespace

std::vector<int> Awaited::blamed() const {
  std::set<int> all = silent_;
  for (const auto& [done, members] : lacking_) all.insert(members.begin(), members.end());
  return listed(all);
}

std::string Awaited::text(int ranks) const {
  std::vector<std::string> parts;
  for (const auto& [done, members] : lacking_)
    parts.push_back(fmt::format("{}, which {} not {}", member_names(listed(members), ranks),
                                members.size() == 1 ? "has" : "have", done));
  if (!silent_.empty())
    parts.push_back(fmt::format("{}, which {} not answer", member_names(listed(silent_), ranks),
                                silent_.size() == 1 ? "does" : "do"));
  if (parts.empty() && !answering_.empty())
    parts.push_back(
        fmt::format("{} to send what is there", member_names(listed(answering_), ranks)));
  if (parts.empty()) return "what is under way";
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::chrono::nanoseconds answers_within(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::milliseconds kLongest{250};
  return std::min<std::chrono::nanoseconds>(kLongest, timeout / 2);
}

std::string stall_text(std::chrono::nanoseconds stall, const std::string& waits) {
  return fmt::format("stall: for {:g} s {}", std::chrono::duration<double>(stall).count(), waits);
}

Failure deadline_failure(const std::string& waits, const Awaited& awaited, int ranks) {
  const std::vector<int> blamed = awaited.blamed();
  const std::string remedy = blamed.empty()
                                 ? "look at what the other ranks and the servers do"
                                 : fmt::format("look at what {} {}", member_names(blamed, ranks),
                                               blamed.size() == 1 ? "does" : "do");
  return {Fault::timed_out,
          fmt::format("deadline: {}; {}. Where ranks are rightly so far apart, let them wait "
                      "longer: paceline run --operation-timeout TIME",
                      waits, remedy),
          blamed};
}

}  // namespace paceline::coordination
