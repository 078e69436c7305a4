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

// "52.3 MiB", "17.0 KiB"
std::string size_text(std::uint64_t bytes) {
  constexpr double kKibi = 1024;
  const double kibibytes = static_cast<double>(bytes) / kKibi;
  if (kibibytes < kKibi) return fmt::format("{:.1f} KiB", kibibytes);
  return fmt::format("{:.1f} MiB", kibibytes / kKibi);
}

std::string remedy(const Awaited& awaited, int ranks) {
  const std::vector<int> blamed = awaited.blamed();
  if (!blamed.empty())
    return fmt::format("look at what {} {}", member_names(blamed, ranks),
                       blamed.size() == 1 ? "does" : "do");
  if (const std::vector<int> sent = awaited.being_sent(); !sent.empty())
    return fmt::format("the network to {} is slow for so many bytes", member_names(sent, ranks));
  return "look at what the other ranks and the servers do";
}

}  // namespace

std::vector<int> Awaited::blamed() const {
  std::set<int> all = silent_;
  for (const auto& [done, members] : lacking_) all.insert(members.begin(), members.end());
  return listed(all);
}

std::vector<int> Awaited::being_sent() const {
  std::vector<int> servers;
  for (const auto& [server, what] : sending_) servers.push_back(server);
  return servers;
}

std::string Awaited::text(int ranks) const {
  std::vector<std::string> parts;
  for (const auto& [done, members] : lacking_)
    parts.push_back(fmt::format("{}, which {} not {}", member_names(listed(members), ranks),
                                members.size() == 1 ? "has" : "have", done));
  if (!silent_.empty())
    parts.push_back(fmt::format("{}, which {} not answer", member_names(listed(silent_), ranks),
                                silent_.size() == 1 ? "does" : "do"));
  for (const auto& [server, what] : sending_)
    parts.push_back(fmt::format("{}, to which {} are still being sent ({} a second)",
                                member_names({server}, ranks), size_text(what.bytes),
                                size_text(what.a_second)));
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
  return {Fault::timed_out,
          fmt::format("deadline: {}; {}. Where ranks are rightly so far apart, let them wait "
                      "longer: paceline run --operation-timeout TIME",
                      waits, remedy(awaited, ranks)),
          awaited.blamed()};
}

}  // namespace paceline::coordination
