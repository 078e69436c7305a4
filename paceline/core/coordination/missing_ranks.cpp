#include "paceline/core/coordination/missing_ranks.h"

#include <utility>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::coordination {

using machine::Message;

Message MissingRanks::answer(std::uint32_t kind, const std::vector<int>& missing) {
  transport::WireWriter payload;
  for (const int rank : missing) payload.integer(static_cast<std::int32_t>(rank));
  return {.kind = kind, .payload = std::move(payload).take()};
}

void MissingRanks::hear(const Message& answer) {
  transport::WireReader payload(answer.payload);
  missing_.emplace();
  while (payload.rest().size() >= sizeof(std::int32_t))
    missing_->push_back(payload.integer<std::int32_t>());
}

Awaited MissingRanks::awaited(const Communicator& group, std::string_view done) const {
  Awaited those;
  if (!missing_) those.is_silent(group.world_rank(0));
  for (const int rank : missing_.value_or(std::vector<int>()))
    if (rank >= 0 && rank < group.size()) those.lacks(group.world_rank(rank), done);
  return those;
}

}  // namespace paceline::coordination
