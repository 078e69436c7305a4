// Engine: another project's library that carries collectives, behind the same Communicator.
//
// Ranks still agree by a group (group.h): calls are told to every rank and compared, they run
// in their order, deadlines and lost ranks end in a verdict. Only when every rank has made the same
// call is it handed to the group's engine, which moves and adds up the data. Send, recv, barrier,
// weights and notes never reach an engine (docs/decisions/0011-engines-carry-data.md).
//
// Engines live in plugins (engine_plugin.h): this header is all that a plugin and core share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/reduce.h"
#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/operation.h"
#include "paceline/core/collective/program/partition.h"

namespace paceline::collective {

// One collective as such libraries speak of it. Ranges count elements, one for each rank.
struct EngineCall {
  Operation operation = Operation::all_reduce;
  ReduceOp op = ReduceOp::sum;  // never average: that is a sum, which core multiplies
  Dtype dtype = Dtype::f32;
  int root = 0;
  ConstBuffer input;
  Buffer output;  // in place where it begins where the input, or this rank's part of it, does
  std::vector<ElementRange>
      sent;  // of the input, for each rank: reduce_scatter, scatter, all_to_all
  std::vector<ElementRange> taken;  // of the output, from each rank: all_gather, gather, all_to_all
  // Device memory alone: what this rank's input is multiplied by before it is added (averages and
  // weights). In host memory core does it.
  double factor = 1;
};

// The engine of one group. THREAD: reactor's driver only; the destructor: any.
class Engine {
 public:
  virtual ~Engine() = default;
  // Must not wait for other ranks. The buffers are the engine's until progress() is true.
  virtual Result<> begin(const EngineCall& call) = 0;
  // Whether what was begun is done; never blocks.
  virtual Result<bool> progress() = 0;
  // The group has failed: nothing of it is called any more but the destructor.
  virtual void abandon() = 0;
};

struct EngineTraits {
  std::string_view name;                     // the algorithm's name in calls: "mpi"
  Memory::Kind memory = Memory::Kind::host;  // of the buffers that it carries
  bool invites = false;                      // groups need an invitation of their first rank
};

struct EnginePlace {
  int rank = 0, world_size = 1;
  int local_rank = 0;  // among the ranks of its host
};

// A group that comes together.
struct Gathering {
  std::span<const int> world_ranks;  // by rank in the group
  std::uint32_t number;              // the group's, the same on all of them
  Bytes invitation;                  // what the first rank's library gave; empty: nothing is needed
  const std::atomic<bool>& given_up;  // nobody waits for it any more
};

// One library serves the whole process and lives as long as it.
class EngineLibrary {
 public:
  virtual ~EngineLibrary() = default;
  virtual EngineTraits traits() const = 0;
  // Why it can carry nothing on this machine, and the remedy; empty: it can. THREAD: any.
  virtual std::string obstacle() const = 0;
  // The reason why it cannot carry this call, and the remedy; empty: it can. THREAD: any.
  virtual std::string refusal(const EngineCall& call) const = 0;
  // Called once before the next, and again in vain. May block until every rank of the world calls
  // it.
  virtual Result<> start(const EnginePlace& place) = 0;
  // Called by the first rank of each group, where traits().invites.
  virtual Result<std::vector<std::byte>> invitation() = 0;
  // Blocks until all of these ranks, and no others, call it with the same number. THREAD: any.
  virtual Result<std::unique_ptr<Engine>> engine_of(const Gathering& group) = 0;
};

// A plugin describes itself by this, which its function kEngineEntry returns.
struct EnginePlugin {
  std::string_view interface;  // kEngineInterface of the headers that it was built with
  EngineLibrary* library;
};
using EngineEntry = EnginePlugin (*)();
inline constexpr const char* kEngineEntry = "paceline_engine_plugin";
// Changes with this header and whatever it includes.
inline constexpr std::string_view kEngineInterface = "paceline engine 2";

}  // namespace paceline::collective
