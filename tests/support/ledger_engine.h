// An engine for ranks that are threads of this process: they lay their calls on one ledger, and
// whoever comes last carries them all out. Plain on purpose: it shows what core does around an
// engine.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/collective/engine.h"

namespace paceline::test {

class LedgerLibrary;

// What all ranks share. The options are set before ranks use it.
class Ledger {
 public:
  static Ledger& make();             // it lives as long as the process, as libraries do
  LedgerLibrary& library(int rank);  // what this rank, a process otherwise, sees of it

  std::uint64_t longest = ~std::uint64_t{0};  // elements that it carries
  bool comes_together = true;                 // false: groups are never made
  bool finishes = true;                       // false: what was begun is never done
  std::string failure;                        // not empty: what every call ends with

  int handed_over() const;  // calls that ranks have laid here

 private:
  friend class LedgerEngine;
  struct Table {  // the calls of one group: by number, then by rank
    std::map<int, std::vector<std::optional<collective::EngineCall>>> calls;
  };
  mutable std::mutex mutex_;
  std::map<int, std::unique_ptr<LedgerLibrary>> libraries_;
  std::map<std::uint32_t, Table> tables_;
  int handed_over_ = 0;
};

class LedgerLibrary final : public collective::EngineLibrary {
 public:
  explicit LedgerLibrary(Ledger& ledger) : ledger_(ledger) {}
  std::string_view name() const override { return "ledger"; }
  std::string refusal(Operation operation, Dtype dtype, std::uint64_t count) const override;
  Result<> start(int rank, int world_size) override;
  Result<std::unique_ptr<collective::Engine>> engine_of(std::span<const int> world_ranks,
                                                        std::uint32_t number) override;

 private:
  Ledger& ledger_;
  int rank_ = -1;
};

// A group of all ranks that the ledger carries, beside Job::world().
std::unique_ptr<Communicator> world_over(Job& job, Ledger& ledger,
                                         std::chrono::milliseconds timeout);

}  // namespace paceline::test
