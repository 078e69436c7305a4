// Lending among the members of a generation, over links that share memory.
#pragma once

#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/server/lending/lender.h"

namespace paceline::server {

class LinkLender final : public Lender {
 public:
  // The generation must outlive it.
  explicit LinkLender(membership::Generation& generation) : generation_(generation) {}
  std::optional<transport::Lent> lend(int server, Bytes own) const override;
  // It ends the generation: of all that peers may have read, nothing else tells them.
  void revoke(const std::vector<transport::Lent>& outputs, const Failure& why) override;

 private:
  membership::Generation& generation_;
};

class LinkBorrower final : public Borrower {
 public:
  // The generation must outlive it.
  explicit LinkBorrower(membership::Generation& generation) : generation_(generation) {}
  std::shared_ptr<const transport::SharedMemory> segment(int worker, std::uint64_t id) override;
  bool borrow(std::span<const int> workers, const std::function<void()>& use) override;

 private:
  membership::Generation& generation_;
};

}  // namespace paceline::server
