// The plugin: the collectives of one MPI library as an engine. It is compiled once for each library
// that is found, because their binary interfaces differ.
//
// MPI_I* starts every operation and MPI_Test polls it, so no thread waits inside MPI while data
// move. Only MPI_Init and the making of a communicator block (collective/engine/enlist.h).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

#include "paceline/core/collective/engine/engine.h"
#include "paceline/plugins/mpi/types.h"

namespace paceline::mpi {
namespace {

using collective::ElementRange;
using collective::EngineCall;

// True once an operation was given up: MPI can then neither cancel it nor finalize cleanly.
std::atomic<bool> abandoned = false;
// The number of groups that have not ended, or are being made.
std::atomic<int> engines = 0;

Result<> succeeded(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return Done{};
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Failure{Fault::io,
                 fmt::format("{} failed: {}; see what the MPI library says on stderr", what,
                             std::string_view(text, static_cast<std::size_t>(length))),
                 {}};
}

struct Counts {  // arguments of MPI's calls with counts for each rank
  explicit Counts(const std::vector<ElementRange>& ranges = {}) {
    for (const ElementRange& range : ranges) {
      counts.push_back(static_cast<int>(range.count));
      // The offset of an empty range is meaningless (collective/call/request.h).
      offsets.push_back(range.count == 0 ? 0 : static_cast<int>(range.offset));
    }
  }
  std::vector<int> counts, offsets;
};

// The operation in flight; MPI reads and writes all of it until the request is done.
struct Flight {
  EngineCall call;
  Counts sent, taken;
  std::vector<std::byte> part;  // a reduce_scatter in place ends here
  MPI_Request request = MPI_REQUEST_NULL;
};

class MpiEngine final : public collective::Engine {
 public:
  // REQUIRES: `engines` counts it already.
  explicit MpiEngine(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
  }
  ~MpiEngine() override {
    --engines;
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!abandoned && finalized == 0) MPI_Comm_free(&comm_);
  }

  Result<> begin(const EngineCall& call) override {
    flight_ = std::make_unique<Flight>();
    flight_->call = call;
    flight_->sent = Counts(call.sent);
    flight_->taken = Counts(call.taken);
    return succeeded(start(*flight_), fmt::format("MPI's {}", name_of(call.operation)));
  }

  Result<bool> progress() override {
    int done = 0;
    const int code = MPI_Test(&flight_->request, &done, MPI_STATUS_IGNORE);
    if (auto tested = succeeded(code, "MPI_Test"); !tested) return tested.error();
    if (done == 0) return false;
    if (!flight_->part.empty())
      std::memcpy(flight_->call.output.data, flight_->part.data(), flight_->part.size());
    flight_.reset();
    return true;
  }

  void abandon() override {
    if (flight_) abandoned = true;
    (void)flight_.release();  // MPI may still use it
  }

 private:
  int start(Flight& f) const;
  int start_gather(Flight& f, MPI_Datatype type) const;
  int start_scatter(Flight& f, MPI_Datatype type) const;
  int start_reduce_scatter(Flight& f, MPI_Datatype type, MPI_Op op) const;

  MPI_Comm comm_;
  int rank_ = 0;
  std::unique_ptr<Flight> flight_;
};

// MPI needs buffers that do not overlap, or MPI_IN_PLACE on every rank. Each rank of the caller may
// decide that for itself, so a copy of the rank's own part, which MPI would make too, makes all
// ranks alike.
int MpiEngine::start(Flight& f) const {
  const EngineCall& c = f.call;
  const MPI_Datatype type = type_of(c.dtype);
  const int count = static_cast<int>(std::max(c.input.count, c.output.count));
  const bool reduces = is_reduction(c.operation);
  const MPI_Op op = reduces ? op_of(c.op, c.dtype) : MPI_OP_NULL;
  switch (c.operation) {
    case Operation::all_reduce:
      if (count > 0 && c.input.data != c.output.data)
        std::memcpy(c.output.data, c.input.data, c.input.size_bytes());
      return MPI_Iallreduce(MPI_IN_PLACE, c.output.data, count, type, op, comm_, &f.request);
    case Operation::reduce: {
      const bool in_place = rank_ == c.root && c.input.data == c.output.data;
      return MPI_Ireduce(in_place ? MPI_IN_PLACE : c.input.data, c.output.data, count, type, op,
                         c.root, comm_, &f.request);
    }
    case Operation::reduce_scatter: return start_reduce_scatter(f, type, op);
    case Operation::broadcast:
      return MPI_Ibcast(c.output.data, count, type, c.root, comm_, &f.request);
    case Operation::all_gather:
    case Operation::gather: return start_gather(f, type);
    case Operation::scatter: return start_scatter(f, type);
    default:
      return MPI_Ialltoallv(c.input.data, f.sent.counts.data(), f.sent.offsets.data(), type,
                            c.output.data, f.taken.counts.data(), f.taken.offsets.data(), type,
                            comm_, &f.request);
  }
}

int MpiEngine::start_reduce_scatter(Flight& f, MPI_Datatype type, MPI_Op op) const {
  const EngineCall& c = f.call;
  std::byte* into = c.output.data;
  const std::byte* own =
      c.input.data + c.sent[static_cast<std::size_t>(rank_)].offset * size_of(c.dtype);
  if (c.output.count > 0 && into == own) {
    f.part.resize(c.output.size_bytes());
    into = f.part.data();
  }
  return MPI_Ireduce_scatter(c.input.data, into, f.sent.counts.data(), type, op, comm_, &f.request);
}

int MpiEngine::start_gather(Flight& f, MPI_Datatype type) const {
  const EngineCall& c = f.call;
  const bool everywhere = c.operation == Operation::all_gather;
  if (everywhere || rank_ == c.root) {
    std::byte* own =
        c.output.data + c.taken[static_cast<std::size_t>(rank_)].offset * size_of(c.dtype);
    if (c.input.count > 0 && own != c.input.data)
      std::memcpy(own, c.input.data, c.input.size_bytes());
    if (!everywhere)
      return MPI_Igatherv(MPI_IN_PLACE, 0, type, c.output.data, f.taken.counts.data(),
                          f.taken.offsets.data(), type, c.root, comm_, &f.request);
    return MPI_Iallgatherv(MPI_IN_PLACE, 0, type, c.output.data, f.taken.counts.data(),
                           f.taken.offsets.data(), type, comm_, &f.request);
  }
  return MPI_Igatherv(c.input.data, static_cast<int>(c.input.count), type, nullptr, nullptr,
                      nullptr, type, c.root, comm_, &f.request);
}

int MpiEngine::start_scatter(Flight& f, MPI_Datatype type) const {
  const EngineCall& c = f.call;
  if (rank_ != c.root)
    return MPI_Iscatterv(nullptr, nullptr, nullptr, type, c.output.data,
                         static_cast<int>(c.output.count), type, c.root, comm_, &f.request);
  const std::byte* own =
      c.input.data + c.sent[static_cast<std::size_t>(rank_)].offset * size_of(c.dtype);
  if (c.output.count > 0 && own != c.output.data)
    std::memcpy(c.output.data, own, c.output.size_bytes());
  return MPI_Iscatterv(c.input.data, f.sent.counts.data(), f.sent.offsets.data(), type,
                       MPI_IN_PLACE, 0, type, c.root, comm_, &f.request);
}

class MpiLibrary;
MpiLibrary& the_library();

class MpiLibrary final : public collective::EngineLibrary {
 public:
  collective::EngineTraits traits() const override { return {.name = "mpi"}; }
  // The library would not have been loaded if there were an obstacle.
  std::string obstacle() const override { return {}; }

  std::string refusal(const EngineCall& call) const override {
    std::size_t count = std::max(call.input.count, call.output.count);
    for (const auto* ranges : {&call.sent, &call.taken}) {
      std::size_t all = 0;
      for (const ElementRange& range : *ranges) all += range.count;
      count = std::max(count, all);
    }
    if (count <= static_cast<std::size_t>(std::numeric_limits<int>::max())) return {};
    return fmt::format(
        "MPI counts to {}: cut the buffer, name an algorithm of Paceline's (`algorithm`), or take "
        "another transport than mpi",
        std::numeric_limits<int>::max());
  }

  Result<> start(const collective::EnginePlace& place) override {
    const std::lock_guard lock(mutex_);
    if (started_) return Done{};
    int initialized = 0, threads = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    if (initialized == 0) {
      if (auto init = succeeded(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads),
                                "MPI_Init_thread");
          !init)
        return init;
      std::atexit([] { the_library().finalize(); });
    }
    MPI_Query_thread(&threads);
    if (threads < MPI_THREAD_MULTIPLE) {
      return Failure{Fault::misuse,
                     "MPI was initialised without threads, and Paceline drives it from its own: "
                     "call MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave it to Paceline",
                     {}};
    }
    int own = 0, all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &all);
    if (own != place.rank || all != place.world_size) {
      return Failure{Fault::mismatch,
                     fmt::format("this is rank {} of {} to Paceline, and {} of {} to MPI: start "
                                 "every rank by one mpirun, the one of the library that it is "
                                 "linked with",
                                 place.rank, place.world_size, own, all),
                     {place.rank}};
    }
    make_types();
    started_ = true;
    return Done{};
  }

  Result<std::vector<std::byte>> invitation() override { return std::vector<std::byte>(); }

  Result<std::unique_ptr<collective::Engine>> engine_of(
      const collective::Gathering& group) override {
    MPI_Group world, members;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, static_cast<int>(group.world_ranks.size()), group.world_ranks.data(),
                   &members);
    MPI_Comm comm = MPI_COMM_NULL;
    ++engines;
    constexpr std::uint32_t kTags = 1 << 15;  // the least that every MPI has
    const int tag = static_cast<int>(group.number % kTags);
    const auto made = succeeded(MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm),
                                "MPI_Comm_create_group");
    MPI_Group_free(&members);
    MPI_Group_free(&world);
    if (!made) {
      --engines;
      return made.error();
    }
    return std::unique_ptr<collective::Engine>(std::make_unique<MpiEngine>(comm));
  }

  // Runs at the end of the process, because MPI can be initialised only once and another Job may
  // begin after one has ended.
  void finalize() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    // A rank that exits in the middle of its job must not wait here while the others wait for it.
    if (abandoned || engines > 0 || finalized != 0) return;
    MPI_Finalize();
  }

 private:
  std::mutex mutex_;
  bool started_ = false;
};

MpiLibrary& the_library() {
  static MpiLibrary& library = *new MpiLibrary;  // never destroyed: a thread may use it at exit
  return library;
}

}  // namespace
}  // namespace paceline::mpi

extern "C" __attribute__((visibility("default"))) paceline::collective::EnginePlugin
paceline_engine_plugin() {
  return {paceline::collective::kEngineInterface, &paceline::mpi::the_library()};
}
