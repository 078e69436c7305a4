#include "paceline/core/job/store_connection.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/membership/handshake/member_name.h"
#include "paceline/core/membership/store/told_wait.h"

namespace paceline::job {

using namespace membership;

namespace {

// Takes the store's answer for its word that this rank is in.
Result<std::unique_ptr<StoreClient>> try_to_connect(const Environment& e, const Hello& own,
                                                    Deadline deadline) {
  auto client = StoreClient::connect(e.store, own, *e.secret, deadline);
  if (!client) return client;
  const std::string key = fmt::format("here/{}", own.rank);
  client.value()->set(key, {});
  const auto answer = client.value()->get(key, deadline);
  if (!answer && client.value()->is_cut_off()) return answer.error();
  return client;  // a verdict is heard while joining
}

}  // namespace

std::unique_ptr<StoreClient> connect_to_store(const Environment& e, const Hello& own,
                                              Deadline deadline) {
  constexpr std::chrono::seconds kOnceMore{10};
  const ToldWait told(e.stall_time, [&] {
    return fmt::format(
        "{} waits for the job's store at {}: is {}, and can that address be reached "
        "from here?{}",
        member_name(e.member(), e.world_size), e.store,
        e.meeting.kind == Meeting::Kind::launcher ? "the launcher running and not stopped"
                                                  : "rank 0 started, does it call paceline::init()",
        left_over(e));
  });
  auto client = try_to_connect(e, own, deadline);
  const bool closed = !client && (client.error().fault == Fault::peer_lost ||
                                  client.error().fault == Fault::refused);
  if (closed) client = try_to_connect(e, own, deadline.sooner(Deadline::in(kOnceMore)));
  return std::move(client).value();
}

}  // namespace paceline::job
