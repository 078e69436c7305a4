// PushedParts: a channel's parts that a worker has pushed to one server and has no sum of yet.
//
// A part of at least kShortestShared bytes is lent to a server that sees it: where the caller has
// it in shared memory, else as a copy on the stage, where its sum comes too. All others travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/regions/regions.h"
#include "paceline/core/server/wire/sum_piece.h"

namespace paceline::server {

// Shared memory in places of one length, of which each holds a part. THREAD: the driver.
class PartStage {
 public:
  PartStage(MutableBytes memory, std::size_t length);
  std::optional<MutableBytes> take();  // a place; nothing: all are taken
  void give_back(MutableBytes place) { free_.push_back(place); }

 private:
  std::vector<MutableBytes> free_;
};

// THREAD: the driver.
class PushedParts {
 public:
  // Without an `owner` all parts travel. Both must outlive it.
  PushedParts(int server, RegionOwner* owner, PartStage& stage)
      : server_(server), owner_(owner), stage_(&stage) {}

  static constexpr std::size_t kShortestShared = 4096;  // below, a copy is cheaper

  std::size_t size() const { return parts_.size(); }
  bool has_parts_of(std::uint64_t call) const;
  // Makes the message that brings the part to the server. `input` and `output` are the part's, and
  // stay until its sum has come or the call was revoked.
  machine::Message push(const SumPiece& piece, Bytes input, MutableBytes output);
  // The sum of a part has come, and stands in its output if the call is `awaited` still. False: no
  // such part was pushed, or the sum is none of it.
  bool take(const machine::Message& message, const ReadPiece& sum, bool awaited);
  // The outputs in the caller's own memory where the server may store sums of this call.
  std::vector<transport::SharedRegion> shared_outputs(std::uint64_t call) const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // call, begin
  struct Part {
    SumPiece piece;
    MutableBytes output;
    std::optional<MutableBytes> place = {};           // on the stage
    std::optional<transport::SharedRegion> own = {};  // the output, where it is lent
    std::optional<transport::Extent> stored = {};     // by the server, if it was lent at all
  };

  static Key key_of(const SumPiece& piece) { return {piece.call, piece.begin}; }
  std::optional<SharedPart> share(Part& part, Bytes input);
  std::optional<SharedPart> share_own(Part& part, Bytes input);
  std::optional<SharedPart> share_staged(Part& part, Bytes input);

  int server_;
  RegionOwner* owner_;
  PartStage* stage_;
  std::map<Key, Part> parts_;
};

}  // namespace paceline::server
