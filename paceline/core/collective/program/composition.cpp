#include "paceline/core/collective/program/composition.h"

#include <algorithm>
#include <map>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/program/cells.h"

namespace paceline::collective {
namespace {

bool has_peer(const Step& step) {
  return step.peer >= 0;
}

// The place of the `nth` of the chunks that stand for one chunk.
Slot moved(Slot slot, const CompositionPart& part, std::size_t nth, std::size_t widest) {
  slot.chunk = part.chunks[static_cast<std::size_t>(slot.chunk)][nth];
  if (slot.space == Slot::Space::scratch)
    slot.place = slot.place * static_cast<int>(widest) + static_cast<int>(nth);
  return slot;
}

// The slots that a step reads.
template <typename Function>
void for_each_read(Step& step, Function function) {
  using Kind = Step::Kind;
  if (step.kind != Kind::recv && step.kind != Kind::recv_reduce) function(step.source);
  if (step.kind == Kind::reduce || step.kind == Kind::recv_reduce) function(step.operand);
}

// The slots of its own rank that a step uses.
template <typename Function>
void for_each_own_slot(Step& step, Function function) {
  for_each_read(step, function);
  if (!is_send(step)) function(step.target);
}

// The slots that a step uses, also the peer's that it stores into.
template <typename Function>
void for_each_slot(Step& step, Function function) {
  for_each_read(step, function);
  if (step.kind != Step::Kind::send) function(step.target);
}

// The chunk that a step is about: all its slots hold it.
int chunk_of(const Step& step) {
  return step.kind == Step::Kind::send ? step.source.chunk : step.target.chunk;
}

bool does_nothing(const Step& step) {
  return step.kind == Step::Kind::copy && step.source == step.target && !step.completes;
}

template <typename Change>
Program with_each_step(Program program, Change change) {
  for (Round& round : program.rounds) {
    for (Step& step : round) change(step);
    std::erase_if(round, does_nothing);
  }
  return without_empty_rounds(std::move(program));
}

}  // namespace

Program on(const CompositionPart& part, const Program& program) {
  PACELINE_CHECK(part.chunks.size() == static_cast<std::size_t>(program.chunks),
                 "a part of {} chunks for a program of {}", part.chunks.size(), program.chunks);
  std::size_t widest = 0;
  for (const auto& chunks : part.chunks) widest = std::max(widest, chunks.size());
  Program result{.chunks = part.of_chunks,
                 .scratch_places = program.scratch_places * static_cast<int>(widest)};
  for (const Round& round : program.rounds) {
    Round& larger = result.rounds.emplace_back();
    for (const Step& step : round) {
      const auto& chunks = part.chunks[static_cast<std::size_t>(chunk_of(step))];
      for (std::size_t nth = 0; nth < chunks.size(); ++nth) {
        Step one = step;
        if (has_peer(one)) one.peer = part.ranks[static_cast<std::size_t>(one.peer)];
        for_each_slot(one, [&](Slot& slot) { slot = moved(slot, part, nth, widest); });
        larger.push_back(one);
      }
    }
    if (larger.empty()) result.rounds.pop_back();
  }
  return result;
}

Program in_sequence(const std::vector<Program>& programs) {
  Program result{.chunks = programs.front().chunks};
  for (const Program& program : programs) {
    PACELINE_CHECK(program.chunks == result.chunks, "a sequence of programs of {} and {} chunks",
                   result.chunks, program.chunks);
    result.scratch_places = std::max(result.scratch_places, program.scratch_places);
    result.rounds.insert(result.rounds.end(), program.rounds.begin(), program.rounds.end());
  }
  return result;
}

Program side_by_side(const std::vector<Program>& programs) {
  Program result{.chunks = programs.front().chunks};
  for (Program program : programs) {
    PACELINE_CHECK(program.chunks == result.chunks, "programs of {} and {} chunks side by side",
                   result.chunks, program.chunks);
    if (result.rounds.size() < program.rounds.size()) result.rounds.resize(program.rounds.size());
    for (std::size_t r = 0; r < program.rounds.size(); ++r) {
      for (Step& step : program.rounds[r]) {
        for_each_slot(step, [&](Slot& slot) {
          if (slot.space == Slot::Space::scratch) slot.place += result.scratch_places;
        });
        result.rounds[r].push_back(step);
      }
    }
    result.scratch_places += program.scratch_places;
  }
  return result;
}

Program without_empty_rounds(Program program) {
  std::erase_if(program.rounds, [](const Round& round) { return round.empty(); });
  return program;
}

Program reads_output(Program program) {
  return with_each_step(std::move(program), [](Step& step) {
    for_each_slot(step, [](Slot& slot) {
      if (slot.space == Slot::Space::input) slot.space = Slot::Space::output;
    });
  });
}

Program reads_input(Program program) {
  std::vector<bool> is_written(static_cast<std::size_t>(program.chunks));
  for (Round& round : program.rounds) {
    for (Step& step : round) {
      for_each_read(step, [&](Slot& slot) {
        const bool lies_there =
            slot.space == Slot::Space::output && !is_written[static_cast<std::size_t>(slot.chunk)];
        if (lies_there) slot.space = Slot::Space::input;
      });
    }
    for (const Step& step : round) {
      const auto written = written_slot(step);
      if (written && written->space == Slot::Space::output)
        is_written[static_cast<std::size_t>(written->chunk)] = true;
    }
  }
  return program;
}

Program others_in_scratch(Program program, int kept) {
  std::map<int, int> places;  // by chunk
  for (Round& round : program.rounds) {
    for (Step& step : round) {
      for_each_own_slot(step, [&](Slot& slot) {
        if (slot.space != Slot::Space::output || slot.chunk == kept) return;
        const int next = program.scratch_places + static_cast<int>(places.size());
        slot = scratch(places.emplace(slot.chunk, next).first->second, slot.chunk);
      });
    }
  }
  program.scratch_places += static_cast<int>(places.size());
  return program;
}

Program with_copy(Program program, int chunk) {
  if (program.rounds.empty()) program.rounds.emplace_back();
  program.rounds.back().push_back(copy(input(chunk), output(chunk)));
  return program;
}

Program partial(Program program) {
  return with_each_step(std::move(program), [](Step& step) { step.completes = false; });
}

Program without_stores(Program program) {
  return with_each_step(std::move(program), [](Step& step) {
    if (step.kind == Step::Kind::store) step = send(step.peer, step.source);
  });
}

Program way_back(const Program& program) {
  Program back{.chunks = program.chunks};
  for (auto round = program.rounds.rbegin(); round != program.rounds.rend(); ++round) {
    Round& turned = back.rounds.emplace_back();
    for (const Step& step : *round) {
      if (!has_peer(step)) continue;
      const Slot slot = output(chunk_of(step));
      turned.push_back(is_send(step) ? recv(step.peer, slot) : send(step.peer, slot));
    }
    if (turned.empty()) back.rounds.pop_back();
  }
  return back;
}

}  // namespace paceline::collective
