// SumServer: a server's side of push_pull. It holds each part until all workers have pushed theirs,
// sums them by the balanced tree in the order of the workers (base/reduce.h), and sends the sum to
// all of them: the bits of a reproducible all_reduce. Parts that workers lend it reads where they
// lie, and stores their sums where the workers want them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/machine/held_part.h"
#include "paceline/core/server/wire/sum_piece.h"

namespace paceline::server {

// THREAD: one.
class SumServer final : public machine::Machine {
 public:
  // The members 0 .. workers - 1 are the workers. Without a `user` no part can be lent; it must
  // outlive this.
  explicit SumServer(int workers, RegionUser* user = nullptr);

  // A worker that has pushed more parts of a channel without an answer is dropped, or of more
  // channels: so much it can make the server hold. Workers of this version have no more of either
  // under way.
  static constexpr std::size_t kMostHeld = 16, kMostChannels = 4096;

  std::int64_t pushes() const { return pushes_; }  // parts taken in all

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;  // channel, call, begin
  struct Gathering {
    SumPiece piece;
    std::map<int, HeldPart> parts;  // by worker
  };

  Result<HeldPart> held_part(int from, const machine::Message& message, const ReadPiece& read);
  machine::Actions tell_missing(int to, const MissingParts& asked) const;
  machine::Actions take(int from, const SumPiece& piece, HeldPart part);
  machine::Actions answer(Gathering gathering);
  machine::Actions refuse(const std::string& why);
  bool may_hold(int worker, std::uint32_t channel) const;
  std::optional<std::string> missed(const Gathering& gathering) const;

  const int workers_;
  RegionUser* const user_;
  collective::TreeSum tree_;
  std::map<Key, Gathering> open_;
  std::vector<std::map<std::uint32_t, std::size_t>> held_;  // parts, by worker and channel
  std::set<int> left_;
  std::int64_t pushes_ = 0;
  bool is_over_ = false;  // all were refused
};

}  // namespace paceline::server
