#include "paceline/app/cli/programs/drawing_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/proof/timeline.h"

namespace paceline::cli {

using namespace collective;
namespace {

class Planner {
 public:
  Planner(std::span<const Program> programs, const Rendezvous& meeting)
      : programs_(programs),
        meeting_(meeting),
        timeline_(timeline(programs, meeting, /*local_round=*/1)) {
    plan_.lanes.resize(static_cast<std::size_t>(timeline_.end));
  }

  DrawingPlan plan() {
    for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
      const auto& rounds = programs_[static_cast<std::size_t>(rank)].rounds;
      for (int round = 0; round < static_cast<int>(rounds.size()); ++round) {
        list_arrows({rank, round});
        list_mark({rank, round});
      }
    }
    give_lanes();
    return std::move(plan_);
  }

 private:
  struct Posted {
    Arrow arrow;
    int order = 0;  // among the messages of its round
  };

  const Round& round_at(const RoundAt& at) const {
    return programs_[static_cast<std::size_t>(at.rank)].rounds[static_cast<std::size_t>(at.round)];
  }

  void list_arrows(const RoundAt& at) {
    const Round& round = round_at(at);
    const std::size_t first = posted_.size();
    for (int i = 0; i < static_cast<int>(round.size()); ++i) {
      const Step& step = round[static_cast<std::size_t>(i)];
      if (!is_send(step)) continue;
      const StepAt& partner = meeting_.partner({at.rank, at.round, i});
      Arrow& arrow = arrow_to(partner.rank, at.rank, first);
      const Step& taken = step_at(programs_, partner);
      arrow.time = std::max({arrow.time, timeline_.begin(at.rank, at.round),
                             timeline_.begin(partner.rank, partner.round)});
      arrow.chunks.push_back(step.source.chunk);
      arrow.stores |= step.kind == Step::Kind::store;
      arrow.reduces |= taken.kind == Step::Kind::recv_reduce;
      arrow.completes |= taken.completes;
    }
  }

  Arrow& arrow_to(int peer, int rank, std::size_t first) {
    for (std::size_t i = first; i < posted_.size(); ++i) {
      if (posted_[i].arrow.to == peer) return posted_[i].arrow;
    }
    posted_.push_back({{.from = rank, .to = peer}, static_cast<int>(posted_.size() - first)});
    return posted_.back().arrow;
  }

  void list_mark(const RoundAt& at) {
    Mark mark{.rank = at.rank, .time = timeline_.begin(at.rank, at.round + 1) - 1};
    for (const Step& step : round_at(at)) {
      if (is_send(step) || is_recv(step)) continue;
      mark.chunks.push_back(step.target.chunk);
      mark.reduces |= step.kind == Step::Kind::reduce;
      mark.completes |= step.completes;
    }
    if (!mark.chunks.empty()) plan_.marks.push_back(mark);
  }

  // Each arrow gets the first lane in which its sender does not send and its receiver does not
  // receive.
  void give_lanes() {
    std::ranges::stable_sort(posted_, {}, [](const Posted& posted) {
      return std::tuple(posted.arrow.time, posted.order, posted.arrow.from);
    });
    const std::size_t ranks = programs_.size();
    std::vector<std::vector<bool>> sends(ranks), receives(ranks);
    int time = -1;
    for (Posted& posted : posted_) {
      Arrow& arrow = posted.arrow;
      if (arrow.time != time) {
        time = arrow.time;
        sends.assign(ranks, {});
        receives.assign(ranks, {});
      }
      auto& out = sends[static_cast<std::size_t>(arrow.from)];
      auto& in = receives[static_cast<std::size_t>(arrow.to)];
      const auto taken = [](const std::vector<bool>& lanes, std::size_t lane) {
        return lane < lanes.size() && lanes[lane];
      };
      std::size_t lane = 0;
      while (taken(out, lane) || taken(in, lane)) ++lane;
      for (auto* lanes : {&out, &in}) {
        lanes->resize(std::max(lanes->size(), lane + 1));
        (*lanes)[lane] = true;
      }
      arrow.lane = static_cast<int>(lane);
      int& count = plan_.lanes[static_cast<std::size_t>(time)];
      count = std::max(count, arrow.lane + 1);
      plan_.arrows.push_back(arrow);
    }
    std::ranges::stable_sort(plan_.arrows, {}, [](const Arrow& arrow) {
      return std::tuple(arrow.time, arrow.lane, arrow.from);
    });
  }

  std::span<const Program> programs_;
  const Rendezvous& meeting_;
  Timeline timeline_;
  std::vector<Posted> posted_;
  DrawingPlan plan_;
};

}  // namespace

DrawingPlan plan_drawing(std::span<const Program> programs, const Rendezvous& meeting) {
  return Planner(programs, meeting).plan();
}

std::string chunk_list(std::vector<int> chunks) {
  std::ranges::sort(chunks);
  const auto repeated = std::ranges::unique(chunks);
  chunks.erase(repeated.begin(), repeated.end());
  std::string text;
  for (std::size_t i = 0; i < chunks.size();) {
    std::size_t last = i;
    while (last + 1 < chunks.size() && chunks[last + 1] == chunks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", chunks[i]);
    if (last > i) text += fmt::format("{}{}", last == i + 1 ? "," : "-", chunks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace paceline::cli
