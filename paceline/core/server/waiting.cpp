#include "paceline/core/server/waiting.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/base/log.h"
#include "paceline/core/coordination/waiting_text.h"

namespace paceline::server {
namespace {

class Wait {
 public:
  Wait(const job::JobLinks& links, const std::string& what, const std::function<bool()>& is_over,
       const Questions& questions)
      : links_(links),
        what_(what),
        is_over_([&] { return is_over() || links.generation->is_failing(); }),
        questions_(questions) {}

  void operator()() {
    while (!until(is_told_ ? last_question_ : quiet_until_.sooner(last_question_))) {
      if (last_question_.passed()) return end();
      if (has_moved()) continue;
      if (hear_answers()) return;
      warn(coordination::stall_text(links_.stall_time, waits()));
      is_told_ = true;
    }
  }

 private:
  const membership::GenerationIdentity& own() const { return links_.generation->identity(); }
  std::string name_of(int member) const { return own().name_of(member); }
  bool until(Deadline deadline) const { return links_.reactor->drive_until(is_over_, deadline); }

  bool has_moved() {
    const std::uint64_t before = std::exchange(moved_, questions_.movement());
    if (moved_ != before) quiet_until_ = Deadline::in(links_.stall_time);
    return moved_ != before;
  }

  // Whether the wait was over meanwhile.
  bool hear_answers() const {
    questions_.ask();
    links_.reactor->drive_until(
        [this] { return is_over_() || questions_.are_answered(); },
        Deadline::in(coordination::answers_within(links_.timeout)).sooner(last_question_));
    return is_over_();
  }

  std::string waits() const {
    return fmt::format("{} waits in {} for {}", name_of(own().rank), what_,
                       questions_.awaited().text([this](int member) { return name_of(member); }));
  }

  void end() {
    questions_.ask();
    if (until(deadline_)) return;
    const Failure failure = coordination::deadline_failure(
        waits(), questions_.awaited(), [this](int member) { return name_of(member); });
    bool is_first = false;
    links_.reactor->run([&] {
      is_first = !links_.generation->is_failing();
      links_.generation->fail(failure);
    });
    if (is_first) throw Error(failure);
  }

  const job::JobLinks& links_;
  const std::string& what_;
  const std::function<bool()> is_over_;
  const Questions& questions_;
  // The last question is asked so early that its answers are there at the deadline.
  const Deadline deadline_ = Deadline::in(links_.timeout),
                 last_question_ = Deadline::in(
                     links_.timeout - std::chrono::duration_cast<std::chrono::milliseconds>(
                                          coordination::answers_within(links_.timeout)));
  Deadline quiet_until_ = Deadline::in(links_.stall_time);
  std::uint64_t moved_ = questions_.movement();
  bool is_told_ = false;
};

}  // namespace

std::string text_of_drop(const job::JobLinks& links, int server, const Failure& why) {
  return fmt::format("{} hears this rank no more: {}", links.generation->identity().name_of(server),
                     why.what);
}

std::string text_of_loss(const job::JobLinks& links, const membership::GenerationPort& port,
                         const Failure& loss) {
  std::optional<Failure> why;
  if (!loss.ranks.empty()) links.reactor->run([&] { why = port.dropped_by(loss.ranks.front()); });
  if (!why) return loss.what;
  return text_of_drop(links, loss.ranks.front(), *why);
}

void wait_for_servers(const job::JobLinks& links, const std::string& what,
                      const std::function<bool()>& is_over, const Questions& questions) {
  Wait(links, what, is_over, questions)();
}

}  // namespace paceline::server
