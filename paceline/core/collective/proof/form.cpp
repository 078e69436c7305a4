#include "paceline/core/collective/proof/form.h"

#include <fmt/format.h>

#include <optional>

#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/program/contract.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {
namespace {

// The fault, or "" if there is none.
using Complaint = std::string;

// The checks of one program.
class Form {
 public:
  Form(Operation operation, const Shape& shape, int rank, const Program& program)
      : operation_(operation), shape_(shape), rank_(rank), program_(program) {
    shape_.rank = rank;
  }

  Complaint of_step(const Step& step) const {
    const bool is_message = is_send(step) || is_recv(step);
    if (is_message && (step.peer < 0 || step.peer >= shape_.ranks || step.peer == rank_)) {
      return fmt::format("has no peer {} among {} ranks", step.peer, shape_.ranks);
    }
    if (!is_message && step.peer != -1) return "names a peer, but moves nothing";
    if (step.completes &&
        (is_send(step) || step.kind == Step::Kind::recv || !is_reduction(operation_))) {
      return "is marked complete, but sums nothing";
    }
    for (const Slot& slot : Reads(step)) {
      if (Complaint complaint = of_read(slot, step); !complaint.empty()) return complaint;
    }
    if (step.kind == Step::Kind::store) return of_peers_slot(step);
    const auto written = written_slot(step);
    return written ? of_write(*written) : "";
  }

 private:
  Complaint of_read(const Slot& slot, const Step& step) const {
    if (Complaint complaint = of_slot(slot); !complaint.empty()) return complaint;
    if (!is_send(step) && slot.chunk != step.target.chunk) {
      return fmt::format("mixes chunks {} and {}", slot.chunk, step.target.chunk);
    }
    return "";
  }

  Complaint of_write(const Slot& slot) const {
    if (slot.space == Slot::Space::input) return "writes into an input: write the output";
    return of_slot(slot);
  }

  // That the peer has the slot is seen from the peer's receive, which must name the same one.
  Complaint of_peers_slot(const Step& step) const {
    if (step.target.space != Slot::Space::output) return "may only store into an output";
    // The place in the peer's output follows from counts that only the peer knows.
    if (operation_ == Operation::all_to_all) return "may not store: use a send";
    if (step.target.chunk != step.source.chunk) {
      return fmt::format("mixes chunks {} and {}", step.source.chunk, step.target.chunk);
    }
    return "";
  }

  Complaint of_slot(const Slot& slot) const {
    if (slot.chunk < 0 || slot.chunk >= program_.chunks) {
      return fmt::format("names chunk {} of {}", slot.chunk, program_.chunks);
    }
    const bool is_scratch = slot.space == Slot::Space::scratch;
    if (slot.place < 0 || slot.place >= (is_scratch ? program_.scratch_places : 1)) {
      return fmt::format("names place {} of {}", slot.place,
                         is_scratch ? program_.scratch_places : 0);
    }
    if (!owns(slot)) {
      return fmt::format("uses {}, which rank {} does not have in {}", to_string(slot), rank_,
                         name_of(operation_));
    }
    return "";
  }

  bool owns(const Slot& slot) const {
    if (slot.space == Slot::Space::input) return has_input(operation_, shape_, slot.chunk);
    if (slot.space == Slot::Space::output) return has_output(operation_, shape_, slot.chunk);
    return true;
  }

  Operation operation_;
  Shape shape_;
  int rank_;
  const Program& program_;
};

// Finds steps of one round that use the same memory, one of them to write.
class Independence {
 public:
  struct Conflict {
    int step;
    int writer;
  };

  Independence(const Program& program, bool in_place)
      : cells_(program, in_place), writers_(cells_.count(), kNobody) {}

  std::optional<Conflict> conflict(const Round& round) {
    const auto found = search(round);
    for (const Step& step : round) {
      if (const auto slot = written_slot(step)) writers_[cells_.of(*slot)] = kNobody;
    }
    return found;
  }

 private:
  static constexpr int kNobody = -1;

  std::optional<Conflict> search(const Round& round) {
    for (int i = 0; i < static_cast<int>(round.size()); ++i) {
      const Step& step = round[static_cast<std::size_t>(i)];
      const auto slot = written_slot(step);
      if (!slot || cells_.is_idle(step)) continue;
      int& writer = writers_[cells_.of(*slot)];
      if (writer != kNobody) return Conflict{i, writer};
      writer = i;
    }
    for (int i = 0; i < static_cast<int>(round.size()); ++i) {
      const Step& step = round[static_cast<std::size_t>(i)];
      if (cells_.is_idle(step)) continue;
      for (const Slot& slot : Reads(step)) {
        const int writer = writers_[cells_.of(slot)];
        if (writer != kNobody && writer != i) return Conflict{i, writer};
      }
    }
    return std::nullopt;
  }

  Cells cells_;
  std::vector<int> writers_;  // by cell: the step of the round that writes it
};

Complaint counts_of(Operation operation, const Shape& shape, int rank, const Program& program,
                    int chunks_of_rank_0) {
  if (program.chunks < 1 || program.scratch_places < 0) {
    return fmt::format("rank {} has {} chunks and {} scratch places", rank, program.chunks,
                       program.scratch_places);
  }
  if (program.chunks != chunks_of_rank_0) {
    return fmt::format("rank {} has {} chunks, rank 0 has {}", rank, program.chunks,
                       chunks_of_rank_0);
  }
  const int needed = chunks_needed(operation, shape.ranks);
  if (needed != 0 && program.chunks != needed) {
    return fmt::format("{} of {} ranks needs {} chunks, rank {} has {}", name_of(operation),
                       shape.ranks, needed, rank, program.chunks);
  }
  return "";
}

Result<Done> check_rounds(Operation operation, const Shape& shape, int rank,
                          std::span<const Program> programs) {
  const Program& program = programs[static_cast<std::size_t>(rank)];
  const Form form(operation, shape, rank, program);
  Independence out_of_place(program, false), in_place(program, true);
  for (int r = 0; r < static_cast<int>(program.rounds.size()); ++r) {
    const Round& round = program.rounds[static_cast<std::size_t>(r)];
    for (int i = 0; i < static_cast<int>(round.size()); ++i) {
      const Complaint complaint = form.of_step(round[static_cast<std::size_t>(i)]);
      if (!complaint.empty()) return fault_at(programs, {rank, r, i}, complaint);
    }
    if (const auto found = out_of_place.conflict(round)) {
      const auto what = fmt::format("uses what step {} of its round writes", found->writer);
      return fault_at(programs, {rank, r, found->step}, what);
    }
    if (const auto found = in_place.conflict(round)) {
      const auto what =
          fmt::format("in place, uses what step {} of its round writes", found->writer);
      return fault_at(programs, {rank, r, found->step}, what);
    }
  }
  return Done{};
}

}  // namespace

Result<Done> check_form(Operation operation, const Shape& shape,
                        std::span<const Program> programs) {
  for (int rank = 0; rank < static_cast<int>(programs.size()); ++rank) {
    const Program& program = programs[static_cast<std::size_t>(rank)];
    const Complaint counts = counts_of(operation, shape, rank, program, programs[0].chunks);
    if (!counts.empty()) return Failure{Fault::misuse, counts, {rank}};

    if (auto sound = check_rounds(operation, shape, rank, programs); !sound) return sound;
  }
  return Done{};
}

}  // namespace paceline::collective
