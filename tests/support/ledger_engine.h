// An engine for ranks that are threads of this process: they write their calls into one ledger, and
// the last one to come carries them all out. It is simple on purpose, to show the work of core
// around an engine.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"

namespace paceline::test {

class LedgerLibrary;

// The state that all ranks share. The options are set before ranks use it.
class Ledger {
 public:
  static Ledger& make();             // lives as long as the process, as libraries do
  LedgerLibrary& library(int rank);  // the library that this rank would load as a process

  std::uint64_t longest = ~std::uint64_t{0};  // most elements that it carries
  std::string invitation;                     // not empty: groups need it
  bool comes_together = true;                 // false: groups are never made
  bool ends_meetings = true;                  // false: groups are made once nobody waits for them
  std::string no_group;                       // not empty: no group is made, for this reason
  int cannot_start = -1;                      // a rank on which it fails
  bool finishes = true;                       // false: calls that began are never done
  std::string failure;                        // not empty: every call ends with it

  int handed_over() const;          // calls that ranks have written here
  std::set<void*> streams() const;  // of their inputs
  int invited() const;              // ranks that came to a group with its invitation

 private:
  friend class LedgerEngine;
  friend class LedgerLibrary;
  struct Table {  // the calls of one group: by number, then by rank
    std::map<int, std::vector<std::optional<collective::EngineCall>>> calls;
  };
  mutable std::mutex mutex_;
  std::map<int, std::unique_ptr<LedgerLibrary>> libraries_;
  std::map<std::uint32_t, Table> tables_;
  int handed_over_ = 0, invited_ = 0;
  std::set<void*> streams_;
};

class LedgerLibrary final : public collective::EngineLibrary {
 public:
  explicit LedgerLibrary(Ledger& ledger) : ledger_(ledger) {}
  collective::EngineTraits traits() const override;
  std::string obstacle() const override { return {}; }
  std::string refusal(const collective::EngineCall& call) const override;
  Result<> start(const collective::EnginePlace& place) override;
  Result<std::vector<std::byte>> invitation() override;
  Result<std::unique_ptr<collective::Engine>> engine_of(
      const collective::Gathering& group) override;

 private:
  Ledger& ledger_;
  int rank_ = -1;
};

// A group of all ranks that the library carries, beside Job::world().
std::unique_ptr<Communicator> world_over(Job& job, collective::EngineLibrary& library,
                                         std::chrono::milliseconds timeout);
std::unique_ptr<Communicator> world_over(Job& job, Ledger& ledger,
                                         std::chrono::milliseconds timeout);

}  // namespace paceline::test
