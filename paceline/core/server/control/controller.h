// Controller: decides which servers make up the chain of each range, as a pure machine. It runs in
// the process that keeps the job's store.
//
// It is told of servers that end and come, hears from servers how far their chains are
// (chain_report.h), and tells all members the chains whenever one has changed. A chain that is too
// short takes the server that comes in the place of the one that ended, else the one that is in the
// fewest chains; it joins behind the last one and follows it once it has caught up. A server counts as a replica when it is ready. A chain without one that is
// ready is lost, and its ranges with it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/table/chain.h"

namespace paceline::server {

enum class ControlKind : std::uint32_t {
  report = 1,  // a server to the controller: a ChainReport
  chains,      // the controller to all members: all chains in bytes (table/chain.h)
};

// THREAD: one.
class Controller final : public machine::Machine {
 public:
  // The first `chains` are of these `servers`; `members` are told of changes. Where messages may be
  // lost, it says them again after each `say_again_after`.
  Controller(std::vector<Chain> chains, int replicas, const std::set<int>& members,
             const std::set<int>& servers, machine::Time say_again_after = {});

  const std::vector<Chain>& chains() const { return chains_; }
  // The servers of a chain that are ready.
  const std::set<int>& ready(std::size_t chain) const { return ready_[chain]; }
  // A chain that is lost, and its servers that were the last.
  struct Lost {
    std::size_t chain = 0;
    std::set<int> servers = {};
  };
  const std::optional<Lost>& lost() const { return lost_; }
  // Whether each chain keeps a server that is ready without this one.
  bool may_lose(int server) const;
  bool is_leaving(std::size_t chain, int server) const {
    const auto found = leaving_.find(chain);
    return found != leaving_.end() && found->second == server;
  }
  // Whether the server is ready in each chain that it is in or joins, and none waits for one.
  bool is_ready(int server) const;
  // Whether all chains have their number of servers, all of which are ready.
  bool is_whole() const;

  machine::Actions start(machine::Time now);  // where messages may be lost
  // Its chains wait for the server that comes in its place, if there is one, before others take it.
  machine::Actions died(int server, bool is_replaced = false);
  machine::Actions came(int server);     // a new member
  machine::Actions welcome(int member);  // one that is no server is told the chains
  // The server is to leave the chain when another one is ready in its place.
  machine::Actions move(std::size_t chain, int server);

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override;
  machine::Actions on_lost(int, machine::Time) override { return {}; }

 private:
  void change(std::size_t chain, std::vector<int> servers, std::optional<int> joiner);
  std::optional<int> spare_for(std::size_t chain, const std::vector<int>& servers) const;
  void end_move(std::size_t chain, int ready);
  void fill_chains();  // those that are too short
  machine::Actions tell() const;

  std::vector<Chain> chains_;
  const std::size_t replicas_;
  std::set<int> members_, servers_;     // those that live
  std::vector<std::set<int>> ready_;    // by chain
  std::map<std::size_t, int> leaving_;  // by chain
  std::optional<Lost> lost_;
  std::size_t coming_ = 0;  // servers, in the place of others
  const machine::Time say_again_after_;
};

}  // namespace paceline::server
