#include "paceline/app/launch/run/launched_generation.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "paceline/app/launch/ending/ending.h"
#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/core/base/check.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {
namespace {

using membership::StoreServer;

constexpr std::chrono::seconds kCleanUpHere{10};

// The user must change a port that was asked for and is taken (misuse); any other failure is the
// host's.
StoreServer open_store(transport::Poller& poller, membership::StoreServerOptions options) {
  const bool asked_for = options.port != 0;
  try {
    return StoreServer(poller, std::move(options));
  } catch (const Error& error) {
    if (!asked_for) throw;
    throw_misuse(fmt::format("--store: {}; give another port, or leave --store out", error.what()));
  }
}

transport::PortRange ports_of(const RunOptions& options) {
  return transport::parse_port_range(options.port_range).value_or(transport::PortRange());
}

// The text is empty for the default, which the environment of the workers need not repeat.
std::string start_timeout_text(const RunOptions& options) {
  if (options.start_timeout == RunOptions().start_timeout) return {};
  return fmt::format("{}ms",
                     std::chrono::ceil<std::chrono::milliseconds>(options.start_timeout).count());
}

}  // namespace

LaunchedGeneration::LaunchedGeneration(const RunContext& parts, int generation,
                                       std::function<void(std::uint64_t step)> on_saved)
    : parts_(parts),
      generation_(generation),
      store_(open_store(parts.poller, store_options(std::move(on_saved)))),
      input_(parts.poller),
      supervisor_({.world_size = parts.placement.world_size,
                   .servers = parts.options.servers,
                   .grace = parts.options.grace,
                   .server_grace = parts.options.server_grace,
                   .stop_grace = parts.options.stop_grace,
                   .timeout_at = parts.timeout_at}),
      starting_(
          {.stall = parts.options.stall, .limit = parts.options.start_timeout, .host = host_name()},
          Clock::now()),
      finishing_(
          {.stall = parts.options.stall, .host = host_name(), .is_stopped = is_stopped_process}) {
  const RunOptions& options = parts.options;
  const int ranks = parts.placement.world_size;
  if (options.replicas == 1) return;
  successions_.emplace(
      Successions::Options{
          .ranks = ranks, .servers = options.servers, .most = options.server_restarts},
      keeper_of_chains(ranks, options.servers, options.replicas));
  for (std::size_t host = 0; host < parts.placement.hosts.size(); ++host)
    for (const int server : parts.placement.hosts[host].servers)
      hosts_of_servers_[ranks + server] = host;
}

membership::StoreServerOptions LaunchedGeneration::store_options(
    std::function<void(std::uint64_t step)> on_saved) {
  const RunOptions& options = parts_.options;
  return {
      .host = parts_.placement.listen_host,
      .port = options.store_port,
      .ports = ports_of(options),
      .job = parts_.job,
      .generation = static_cast<std::uint64_t>(generation_),
      .world_size = parts_.placement.world_size,
      .servers = options.servers,
      .secret = parts_.secret,
      .on_report =
          [this](const membership::WorkerReport& report) {
            carry_out(supervisor_.on_report(report.rank, report.failure, Clock::now()));
          },
      .on_saved = [saved = std::move(on_saved)](int, std::uint64_t step) { saved(step); },
      .on_joined =
          [this](int rank) {
            if (rank < parts_.placement.world_size) starting_.on_joined(Clock::now());
            carry_out(supervisor_.on_joined(rank, Clock::now()));
          },
      .on_left =
          [this](int rank) {
            supervisor_.on_left(rank);
            if (successions_) store_.bury(rank);
          },
      .on_server_report = [this](int server, Bytes report) { on_server_report(server, report); },
      .on_linked = [this](int member) { on_linked(member); }};
}

LaunchedGeneration::~LaunchedGeneration() {
  hosts_.clear();
}

WorkerEvents LaunchedGeneration::events() {
  return {.started = [this](int rank, int pid) { supervisor_.on_started(rank, pid); },
          .not_started =
              [this](int rank, const std::string& why, Clock::time_point when) {
                constexpr int kExitOne = 1 << 8;  // as a wait status
                on_ended(rank, kExitOne, when, why);
              },
          .ended = [this](int rank, int status,
                          Clock::time_point when) { on_ended(rank, status, when); },
          .lost =
              [this](int rank, const std::string& why) {
                carry_out(supervisor_.on_lost(rank, why, Clock::now()));
              }};
}

void LaunchedGeneration::start(Agents agents) {
  const RunOptions& options = parts_.options;
  const JobVariables job{.world_size = parts_.placement.world_size,
                         .servers = options.servers,
                         .replicas = options.replicas,
                         .job = parts_.job,
                         .generation = generation_,
                         .max_restarts = options.max_restarts,
                         .store = store_.address(),
                         .transport = options.transport,
                         .device_transport = options.device_transport,
                         .devices = options.devices,
                         .ranks_per_device = options.ranks_per_device,
                         .determinism = options.determinism,
                         .operation_timeout = options.operation_timeout,
                         .start_timeout = start_timeout_text(options),
                         .port_range = options.port_range,
                         .master_address = parts_.placement.master_address,
                         .master_port = free_port(ports_of(options)),
                         .usable_cores = usable_cores()};
  const std::vector<PlacedHost>& hosts = parts_.placement.hosts;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    orders_.emplace(i, orders_for(options, parts_.placement, job, i));
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!hosts[i].here) start_there(i, orders_.at(i), agents);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].here) start_here(orders_.at(i));
  input_.workers_started();
}

void LaunchedGeneration::start_here(const AgentOrders& orders) {
  constexpr std::size_t kEach = 5;  // four pipes, and the connection to the store
  const std::vector<ProcessPlace> places = places_of(orders);
  const auto room = transport::make_room_for_files(
      kEach * places.size(), fmt::format("the launcher of {} processes", places.size()));
  if (!room) throw Error(room.error());
  auto workers = std::make_unique<LocalWorkers>(
      parts_.poller, parts_.output, events(),
      ShimOrders{.program = parts_.options.program,
                 .command = parts_.options.command,
                 .secret = parts_.secret_file,
                 .signal_mask = parts_.signals.original_mask(),
                 .pipe_action = parts_.signals.original_pipe_action(),
                 .open_files = parts_.open_files});
  here_ = workers.get();
  hosts_.push_back(std::move(workers));
  inherited_ = own_environment();
  for (const std::string& entry : parts_.options.passed) set_variable(inherited_, entry);
  for (const ProcessPlace& place : places) {
    here_->start(place, worker_environment(inherited_, orders.job, place),
                 input_.descriptor_for(place.rank));
  }
}

void LaunchedGeneration::start_there(std::size_t host, AgentOrders orders, Agents& agents) {
  const HostShare& share = parts_.placement.hosts[host].share;
  for (const ProcessPlace& place : places_of(orders)) supervisor_.on_host(place.rank, share.name);
  if (parts_.options.nodes.nodes == 1) orders.secret = parts_.secret.hexadecimal();
  const auto known = agents.extract(host);
  AgentChannel channel =
      known ? std::move(known.mapped())
            : start_agent(parts_.options.ssh, share.name, parts_.signals.original_mask()).value();
  auto workers = std::make_unique<RemoteWorkers>(parts_.poller, parts_.output, events(),
                                                 std::move(channel), orders);
  there_[host] = workers.get();
  hosts_.push_back(std::move(workers));
}

void LaunchedGeneration::on_linked(int member) {
  supervisor_.on_linked(member);
  if (!successions_) return;
  successions_->on_linked(member);
  tell_map();
}

void LaunchedGeneration::on_server_report(int server, Bytes report) {
  if (!successions_) return;
  successions_->on_report(server, report);
  for (const int member : successions_->take_ready())
    parts_.say(fmt::format("paceline: server {} is ready\n", member - parts_.placement.world_size));
  tell_map();
}

void LaunchedGeneration::tell_map() {
  if (const auto map = successions_->take_map()) store_.tell_map(*map);
}

void LaunchedGeneration::on_ended(int member, int wait_status, Clock::time_point when,
                                  const std::string& not_started) {
  const RankRecord& record = records().at(static_cast<std::size_t>(member));
  const bool has_left = record.left && wait_status == 0;
  // Whom others still wait for at the start is no loss that they bear.
  if (successions_ && (record.linked || record.late)) store_.bury(member);
  if (successions_ && record.server && !has_left)
    return on_server_death(member, wait_status, when, not_started);
  carry_out(not_started.empty() ? supervisor_.on_exit(member, wait_status, when)
                                : supervisor_.on_not_started(member, not_started, when));
}

// A server that has told why it gives up has told it to all members, which end with it.
void LaunchedGeneration::on_server_death(int server, int wait_status, Clock::time_point when,
                                         const std::string& not_started) {
  const RankRecord& record = records().at(static_cast<std::size_t>(server));
  const bool has_told_all = record.linked && record.report;
  const bool is_borne = !has_told_all && successions_->bears_loss_of(server);
  const bool was_well = supervisor_.is_well();
  if (was_well && is_borne) return replace(server, wait_status, when, not_started);
  carry_out(not_started.empty() ? supervisor_.on_exit(server, wait_status, when)
                                : supervisor_.on_not_started(server, not_started, when));
  // Ranks save after a signal, and need what is left.
  const bool ranks_save =
      !was_well && supervisor_.has_ranks() && supervisor_.outcome().kind != Outcome::Kind::failed;
  if (!ranks_save) return;
  std::ignore = successions_->on_death(server, false);
  if (is_borne) tell_map();
  else store_.tell(verdict_about(server, records()));
}

void LaunchedGeneration::replace(int server, int wait_status, Clock::time_point when,
                                 const std::string& not_started) {
  supervisor_.on_borne_exit(server, wait_status, when, not_started);
  const auto successor = successions_->on_death(server, supervisor_.has_ranks());
  parts_.say(describe_loss(server, successor, records(), host_name()));
  tell_map();
  if (successor) start_server(*successor, hosts_of_servers_.at(server));
}

void LaunchedGeneration::start_server(int member, std::size_t host) {
  const PlacedHost& place = parts_.placement.hosts[host];
  const int number = member - parts_.placement.world_size;
  PACELINE_CHECK(supervisor_.add_server(place.here ? "" : place.share.name) == member,
                 "server {} has another number: a bug, please report it", number);
  hosts_of_servers_[member] = host;
  store_.expect(member);
  if (!place.here) return there_.at(host)->start_server(member, number);
  const AgentOrders& orders = orders_.at(host);
  const ProcessPlace its = place_of_server(orders, number);
  try {
    here_->start(its, worker_environment(inherited_, orders.job, its),
                 input_.descriptor_for(member));
  } catch (const Error& error) {  // another try would end in the same way
    supervisor_.on_borne_exit(member, 1, Clock::now(), error.what());
    std::ignore = successions_->on_death(member, false);
    parts_.say(describe_loss(member, {}, records(), host_name()));
  }
}

void LaunchedGeneration::carry_out(const Actions& actions) {
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::tell) store_.tell(action.verdict);
    for (const auto& host : hosts_) {
      if (action.kind == Action::Kind::forward) host->forward(action.signal);
      if (action.kind == Action::Kind::kill) host->kill();
    }
  }
}

void LaunchedGeneration::on_timer() {
  const auto now = Clock::now();
  carry_out(supervisor_.on_timer(now));
  if (supervisor_.is_well()) tell_long_waits(now);
}

void LaunchedGeneration::tell_long_waits(Clock::time_point now) {
  const std::vector<RankRecord>& records = supervisor_.records();
  if (const auto rank = starting_.overdue(records, now))
    carry_out(supervisor_.on_absent(*rank, starting_.too_late(*rank, records), now));
  else if (const auto line = starting_.line(records, now)) parts_.say(*line);
  if (const auto line = finishing_.line(records, now)) parts_.say(*line);
}

Deadline LaunchedGeneration::next_timer() const {
  const Deadline next = supervisor_.next_timer();
  if (!supervisor_.is_well()) return next;
  const std::vector<RankRecord>& records = supervisor_.records();
  return next.sooner(starting_.next_timer(records)).sooner(finishing_.next_timer(records));
}

bool LaunchedGeneration::is_over() {
  if (supervisor_.end_by().passed()) return true;
  if (!supervisor_.settled()) return false;
  for (const auto& host : hosts_) {
    if (!host->empty()) return false;
  }
  parts_.output.writers_are_gone();
  return parts_.output.all_written();
}

void LaunchedGeneration::end(int exit_code) {
  for (const auto& host : hosts_) host->end(exit_code);
}

std::optional<Agents> LaunchedGeneration::release() {
  Agents agents;
  for (const auto& [host, workers] : there_)
    if (auto channel = workers->take_channel()) agents.emplace(host, *std::move(channel));
  if (here_ != nullptr && !here_->kill_all(Deadline::in(kCleanUpHere))) return std::nullopt;
  return agents;
}

}  // namespace paceline::launch
