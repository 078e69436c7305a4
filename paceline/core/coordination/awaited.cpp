#include "paceline/core/coordination/awaited.h"

#include <fmt/format.h>

namespace paceline::coordination {
namespace {

// A name without the word that the last one began with: "rank 1, 2".
std::string shortened(const std::string& name, std::string& last_word) {
  const std::string word = name.substr(0, name.find(' ') + 1);
  const bool is_same = !word.empty() && word == last_word;
  last_word = word;
  return is_same ? name.substr(word.size()) : name;
}

std::vector<int> listed(const std::set<int>& members) {
  return {members.begin(), members.end()};
}

}  // namespace

std::string names_of(const std::vector<int>& members,
                     const std::function<std::string(int)>& name_of) {
  std::string all, last_word;
  for (const int member : members)
    all += (all.empty() ? "" : ", ") + shortened(name_of(member), last_word);
  return all;
}

std::vector<int> Awaited::blamed() const {
  std::set<int> all = silent_;
  for (const auto& [done, members] : lacking_) all.insert(members.begin(), members.end());
  return listed(all);
}

std::string Awaited::text(const std::function<std::string(int)>& name_of) const {
  std::vector<std::string> parts;
  for (const auto& [done, members] : lacking_)
    parts.push_back(fmt::format("{}, which {} not {}", names_of(listed(members), name_of),
                                members.size() == 1 ? "has" : "have", done));
  if (!silent_.empty())
    parts.push_back(fmt::format("{}, which {} not answer", names_of(listed(silent_), name_of),
                                silent_.size() == 1 ? "does" : "do"));
  if (parts.empty() && !answering_.empty())
    parts.push_back(fmt::format("{} to send what is there", names_of(listed(answering_), name_of)));
  if (parts.empty()) return "what is under way";
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace paceline::coordination
