// Successions: whether a job goes on when the process of a server dies, and which server is started
// in its place. Pure.
//
// All members of the beginning must be linked to each other first: until then they wait for every
// one of them. A server that takes the place of another one is a new member, numbered after all.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "paceline/app/launch/ending/server_keeper.h"

namespace paceline::launch {

class Successions {
 public:
  struct Options {
    int ranks = 1;
    int servers = 1;  // of the beginning
    int most = 3;     // servers that are started in the place of others
  };
  Successions(const Options& options, std::unique_ptr<ServerKeeper> keeper);

  void on_linked(int member);  // it is linked to all others
  void on_report(int server, Bytes report);

  // Whether the job goes on without this server, in place of which another one may come.
  bool bears_loss_of(int server) const;
  // It has died. Returns the number of the member that is to be started in its place; nothing:
  // `may_start` is false, or as many have been started as may be.
  std::optional<int> on_death(int server, bool may_start);

  int started() const { return started_; }
  int most() const { return options_.most; }
  // Servers in the place of others that have become ready since the last call.
  std::vector<int> take_ready();
  std::optional<std::vector<std::byte>> take_map() { return keeper_->take_map(); }

 private:
  bool is_late(int member) const { return member >= options_.ranks + options_.servers; }
  bool all_are_linked() const;

  Options options_;
  std::unique_ptr<ServerKeeper> keeper_;
  std::set<int> linked_;
  std::set<int> awaited_;  // started in the place of others, and not ready
  int started_ = 0;
};

}  // namespace paceline::launch
