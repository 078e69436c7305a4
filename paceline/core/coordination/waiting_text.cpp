#include "paceline/core/coordination/waiting_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::coordination {

std::chrono::nanoseconds answers_within(std::chrono::nanoseconds timeout) {
  constexpr std::chrono::milliseconds kLongest{250};
  return std::min<std::chrono::nanoseconds>(kLongest, timeout / 2);
}

std::string stall_text(std::chrono::nanoseconds stall, const std::string& waits) {
  return fmt::format("stall: for {:g} s {}", std::chrono::duration<double>(stall).count(), waits);
}

Failure deadline_failure(const std::string& waits, const Awaited& awaited,
                         const std::function<std::string(int)>& name_of) {
  const std::vector<int> blamed = awaited.blamed();
  const std::string remedy = blamed.empty()
                                 ? "look at what the other ranks and the servers do"
                                 : fmt::format("look at what {} {}", names_of(blamed, name_of),
                                               blamed.size() == 1 ? "does" : "do");
  return {Fault::timed_out,
          fmt::format("deadline: {}; {}. Where ranks are rightly so far apart, let them wait "
                      "longer: paceline run --operation-timeout TIME",
                      waits, remedy),
          blamed};
}

}  // namespace paceline::coordination
