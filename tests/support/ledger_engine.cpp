#include "tests/support/ledger_engine.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>

#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/job/job_impl.h"

namespace paceline::test {
namespace {

using collective::ElementRange;
using collective::EngineCall;
using Calls = std::vector<std::optional<EngineCall>>;

Bytes part_of(ConstBuffer buffer, ElementRange range) {
  return {buffer.data + range.offset * size_of(buffer.dtype), range.count * size_of(buffer.dtype)};
}

void put(Bytes from, Buffer into, std::size_t offset) {
  if (!from.empty())
    std::memmove(into.data + offset * size_of(into.dtype), from.data(), from.size());
}

std::vector<std::byte> copy_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

void carry_reduction(const Calls& calls) {
  const EngineCall& first = *calls[0];
  auto sum = copy_of(first.input.bytes());
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    reduce(first.op, first.dtype, sum, calls[rank]->input.bytes(), sum);
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const ConstBuffer whole{sum.data(), first.input.count, first.dtype};
    const bool all = first.operation == Operation::all_reduce ||
                     (first.operation == Operation::reduce && static_cast<int>(rank) == first.root);
    if (all) put(sum, calls[rank]->output, 0);
    if (first.operation == Operation::reduce_scatter)
      put(part_of(whole, first.sent[rank]), calls[rank]->output, 0);
  }
}

void carry_move(const Calls& calls) {
  const EngineCall& root = *calls[static_cast<std::size_t>(calls[0]->root)];
  std::vector<std::vector<std::byte>> inputs;
  for (const auto& call : calls) inputs.push_back(copy_of(call->input.bytes()));
  for (std::size_t to = 0; to < calls.size(); ++to) {
    const EngineCall& call = *calls[to];
    if (call.operation == Operation::broadcast) put(root.input.bytes(), call.output, 0);
    if (call.operation == Operation::scatter)
      put(part_of(root.input, root.sent[to]), call.output, 0);
    const bool gathers = call.operation == Operation::all_gather ||
                         (call.operation == Operation::gather && &call == &root);
    for (std::size_t from = 0; from < calls.size(); ++from) {
      if (gathers) put(inputs[from], call.output, call.taken[from].offset);
      if (call.operation == Operation::all_to_all)
        put(part_of(calls[from]->input, calls[from]->sent[to]), call.output,
            call.taken[from].offset);
    }
  }
}

}  // namespace

class LedgerEngine final : public collective::Engine {
 public:
  LedgerEngine(Ledger& ledger, std::uint32_t group, int rank, std::size_t ranks)
      : ledger_(ledger), group_(group), rank_(static_cast<std::size_t>(rank)), ranks_(ranks) {}

  Result<> begin(const EngineCall& call) override {
    const std::lock_guard lock(ledger_.mutex_);
    ++ledger_.handed_over_;
    ledger_.streams_.insert(call.input.memory.stream);
    if (!ledger_.failure.empty()) return Failure{Fault::io, ledger_.failure, {}};
    Calls& calls = ledger_.tables_[group_].calls[++number_];
    calls.resize(ranks_);
    calls[rank_] = call;
    const bool last = std::ranges::all_of(calls, [](const auto& c) { return c.has_value(); });
    if (!last || !ledger_.finishes) return Done{};
    if (is_reduction(call.operation)) carry_reduction(calls);
    else carry_move(calls);
    calls.clear();  // done
    return Done{};
  }

  Result<bool> progress() override {
    const std::lock_guard lock(ledger_.mutex_);
    return ledger_.tables_[group_].calls[number_].empty();
  }

  void abandon() override {}

 private:
  Ledger& ledger_;
  const std::uint32_t group_;
  const std::size_t rank_, ranks_;
  int number_ = 0;
};

Ledger& Ledger::make() {
  static auto& ledgers = *new std::vector<std::unique_ptr<Ledger>>;
  return *ledgers.emplace_back(std::make_unique<Ledger>());
}

LedgerLibrary& Ledger::library(int rank) {
  const std::lock_guard lock(mutex_);
  auto& library = libraries_[rank];
  if (!library) library = std::make_unique<LedgerLibrary>(*this);
  return *library;
}

int Ledger::handed_over() const {
  const std::lock_guard lock(mutex_);
  return handed_over_;
}

std::set<void*> Ledger::streams() const {
  const std::lock_guard lock(mutex_);
  return streams_;
}

int Ledger::invited() const {
  const std::lock_guard lock(mutex_);
  return invited_;
}

collective::EngineTraits LedgerLibrary::traits() const {
  return {.name = "ledger", .invites = !ledger_.invitation.empty()};
}

std::string LedgerLibrary::refusal(const EngineCall& call) const {
  return call.input.count <= ledger_.longest ? "" : "the ledger is too small: take a program";
}

Result<std::vector<std::byte>> LedgerLibrary::invitation() {
  return copy_of(std::as_bytes(std::span(ledger_.invitation)));
}

Result<> LedgerLibrary::start(const collective::EnginePlace& place) {
  rank_ = place.rank;
  if (rank_ == ledger_.cannot_start) return Failure{Fault::io, "it cannot start here", {rank_}};
  if (!ledger_.comes_together) std::promise<void>().get_future().wait();
  return Done{};
}

Result<std::unique_ptr<collective::Engine>> LedgerLibrary::engine_of(
    const collective::Gathering& group) {
  if (!group.invitation.empty() &&
      std::ranges::equal(group.invitation, std::as_bytes(std::span(ledger_.invitation)))) {
    const std::lock_guard lock(ledger_.mutex_);
    ++ledger_.invited_;
  }
  if (!ledger_.no_group.empty()) return Failure{Fault::io, ledger_.no_group, {}};
  while (!ledger_.ends_meetings && !group.given_up) std::this_thread::yield();
  const auto own = std::ranges::find(group.world_ranks, rank_) - group.world_ranks.begin();
  return std::unique_ptr<collective::Engine>(std::make_unique<LedgerEngine>(
      ledger_, group.number, static_cast<int>(own), group.world_ranks.size()));
}

std::unique_ptr<Communicator> world_over(Job& job, collective::EngineLibrary& library,
                                         std::chrono::milliseconds timeout) {
  constexpr std::uint32_t kNumber = 77;
  auto& generation = job.impl().generation;
  return collective::open_communicator({.number = kNumber,
                                        .name = std::string(library.traits().name),
                                        .reactor = job.impl().reactor,
                                        .generation = generation,
                                        .world_ranks = collective::Members::all_of(*generation),
                                        .determinism = Determinism::fast,
                                        .timeout = timeout,
                                        .engines = &library});
}

std::unique_ptr<Communicator> world_over(Job& job, Ledger& ledger,
                                         std::chrono::milliseconds timeout) {
  return world_over(job, ledger.library(job.rank()), timeout);
}

}  // namespace paceline::test
