// MissingRanks: for whom a group waits, where rank 0 alone knows it and tells each rank that asks.
//
//   Rank r tells its machine ask(). The machine sends that to rank 0, which answers with a message
//   of answer(), and rank r gives the answer to hear().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/awaited.h"
#include "paceline/core/machine/machine.h"

namespace paceline::coordination {

// A value, of a rank that asks. Ranks are those of the group.
class MissingRanks {
 public:
  // A new question: an older answer holds no more.
  void ask() { missing_.reset(); }
  void hear(const machine::Message& answer);
  bool are_known() const { return missing_.has_value(); }

  static machine::Message answer(std::uint32_t kind, const std::vector<int>& missing);

  // The missing ranks have not `done` what is waited for; without an answer rank 0 is silent.
  Awaited awaited(const Communicator& group, std::string_view done) const;

 private:
  std::optional<std::vector<int>> missing_;
};

}  // namespace paceline::coordination
