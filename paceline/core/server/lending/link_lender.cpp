#include "paceline/core/server/lending/link_lender.h"

#include "paceline/core/transport/link/lent_use.h"

namespace paceline::server {

std::optional<transport::Lent> LinkLender::lend(int server, Bytes own) const {
  const transport::Link* const link = generation_.link(server);
  if (link == nullptr || !link->remote_of(own)) return std::nullopt;
  return generation_.segments().lend(own);
}

void LinkLender::revoke(const std::vector<transport::Lent>& outputs, const Failure& why) {
  generation_.fail(why);
  for (const transport::Lent& output : outputs) generation_.take_back(output);
}

std::shared_ptr<const transport::SharedMemory> LinkBorrower::segment(int worker, std::uint64_t id) {
  transport::Link* const link = generation_.link(worker);
  return link == nullptr || id == 0 ? nullptr : link->memory(id);
}

bool LinkBorrower::borrow(std::span<const int> workers, const std::function<void()>& use) {
  transport::LentUse all;
  for (const int worker : workers) {
    transport::Link* const link = generation_.link(worker);
    if (link == nullptr || !all.begin(*link)) return false;
  }
  use();
  return all.end();
}

}  // namespace paceline::server
