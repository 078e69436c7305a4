// `paceline bench schedule`: measures the gain of schedules on these links.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "paceline/app/cli/bench/bench_ranks.h"
#include "paceline/app/cli/bench/schedule_report.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/observe/rank_trace.h"
#include "paceline/core/observe/trace_file.h"
#include "paceline/core/schedule/schedule.h"

namespace paceline::cli {
namespace {

using schedule::Costs;
using schedule::MessagePlan;
using schedule::Model;

constexpr const char* kScheduleAbout =
    "Replays the training of ResNet-50, BERT-Base and BERT-Large with several schedules: gradients "
    "of full size\n"
    "move between these ranks; computation is a wait or, with --compute, real work.";

constexpr const char* kScheduleMore = R"(Examples:
  paceline bench schedule --ranks 2 --models resnet-50
  paceline bench schedule --hosts a,b,c,d --rho 1 --json schedules.json
  paceline profile --output mlp.json -- ./train && paceline bench schedule --ranks 2 --models mlp.json
  paceline bench schedule --ranks 2 --compute --models bert-base --compression fp16
  paceline bench schedule --hosts a,b,c,d --servers 4 --server-hosts e,f,g,h --methods priority,general
  tests/net/hosts with 4 --rate 1gbit -- paceline bench schedule --hosts ... --steps 3

Methods: barrier (one message after the backward pass), buckets (neighbours share a message up to a length, the
default of training), wait_free (each gradient at once), merged (neighbours share a message where that is faster),
priority (in parts; gradients that the next forward pass reads first go first, and the next step begins before all are
back), priority_barrier (the same, with a barrier), general (a search over all of these).
Computation: by default ranks wait for its duration without using a processor, as with an accelerator. With --compute
they multiply small matrices, as many as an idle processor does in that time, which takes processor time from the
threads that communicate and encode, as training on processors does. Then the forecast shares the processors too, and
the exposed time of a step includes the time that its computation lost to these threads.
Paths: collective, the ranks' own all_reduces; with --servers each method also runs over the servers, which sum what
all ranks push, and general chooses the path of each group (both).
Forecast: the simulator's, from the times of streams of messages that are measured first. Bound: a time that no schedule
of the kind can beat at the rate of these streams, without start-ups; over servers, steps that overlap can exceed that
rate by a tenth. Hidden: the share of the transfer that the computation hid.

Exit codes: 0 done; 1 a result was wrong, or a rank failed; 2 wrong usage; else as `paceline run`
)";

// A policy, across the barrier where it may cross it.
struct Method {
  std::string name;
  const schedule::Policy* policy = nullptr;
  bool crosses_barrier = true;
};

// The way of a row's gradients to the other ranks.
enum class Way { collective, server, both };

const char* name_of(Way way) {
  return way == Way::collective ? "collective" : way == Way::server ? "server" : "both";
}

std::vector<Method> all_methods() {
  std::vector<Method> methods;
  for (const schedule::Policy& policy : schedule::policies()) {
    methods.push_back({std::string(policy.name), &policy});
    if (policy.name == "priority") methods.push_back({"priority_barrier", &policy, false});
  }
  return methods;
}

std::vector<std::string> names_of(const std::vector<Method>& methods) {
  std::vector<std::string> names;
  for (const Method& method : methods) names.push_back(method.name);
  return names;
}

struct ScheduleOptions {
  ScheduleOptions() : app(kScheduleAbout, "paceline bench schedule") {
    const auto add = adder(app, kScheduleMore);
    add_ranks_options(app, ranks);
    add_server_options(app, ranks);
    add("--models", models, "LIST",
        "resnet-50, bert-base, bert-large (all), or files that `paceline profile` has recorded: "
        "their names have a / or end in .json");
    const std::string all = fmt::format("{} (all)", fmt::join(names_of(all_methods()), ", "));
    add("--methods", methods, "LIST", all);
    add("--compression", compression, "LIST",
        "codecs, as fp16,int8,top_k:ratio=0.01; every method runs without a codec and with each "
        "of them");
    add("--rho", rho, "R",
        "scale the computation so that communication takes R times as long (default: not scaled)");
    app.add_flag("--compute", compute,
                 "compute by real kernels, which take a processor, instead of waiting");
    add("--divide", divide, "K", "divide the length of all tensors by K (1)");
    add("--steps", steps, "N", "steps of each method, after one that warms up (3)");
    add("--trace", trace, "FILE",
        "write a trace of computation, waiting and messages: Chrome's JSON, or Perfetto's if the "
        "name ends in .pftrace");
    add("--svg", svg, "FILE",
        "draw each method's last step: its computation and its messages over time");
    add("--json", json, "FILE", "write the figures as JSON; - is stdout, without the table");
  }

  CLI::App app;
  RanksOptions ranks;
  std::string models = "resnet-50,bert-base,bert-large", methods, compression, rho, divide = "1",
              steps = "3", trace, svg, json;
  bool compute = false;
};

struct ScheduleRequest {
  std::vector<Model> models;
  std::vector<Method> methods;
  std::vector<std::string> codecs = {std::string(schedule::kUncompressed)};
  double rho = 0;
  int divide = 1, steps = 3;
  bool compute = false;
};

// "int8:bits=16,feedback=on" has commas of its own: a part that begins with no method's name
// continues the one before it.
void take_codecs(const std::string& text, std::vector<std::string>& codecs) {
  const compress::Catalogue methods = compress::built_in_methods();
  for (const std::string& word : parse_list("--compression", text)) {
    const bool is_setting = word.find('=') < word.find(':') && codecs.size() > 1;
    if (is_setting) codecs.back() += "," + word;
    else if (word != schedule::kUncompressed) codecs.push_back(word);
  }
  for (std::size_t i = 1; i < codecs.size(); ++i) {
    if (auto parsed = compress::parse_compression(codecs[i], methods); !parsed)
      throw_misuse(fmt::format("--compression: {}", parsed.error().what));
  }
}

ScheduleRequest checked(const ScheduleOptions& given) {
  constexpr int kMost = 100'000;
  ScheduleRequest request{.compute = given.compute};
  request.divide = parse_count("--divide", given.divide, 1, kMost);
  request.steps = parse_count("--steps", given.steps, 1, kMost);
  if (!given.rho.empty()) request.rho = parse_positive("--rho", given.rho);
  for (const std::string& name : parse_list("--models", given.models))
    request.models.push_back(schedule::divided(schedule::model_named(name), request.divide));
  if (!given.compression.empty()) take_codecs(given.compression, request.codecs);
  const std::vector<Method> known = all_methods();
  const auto names =
      given.methods.empty() ? names_of(known) : parse_list("--methods", given.methods);
  for (const std::string& name : names) {
    parse_choice("--methods", name, names_of(known));
    for (const Method& method : known) {
      if (method.name == name) request.methods.push_back(method);
    }
  }
  return request;
}

// Runs one model with all methods and codecs, one after the other.
class Comparison {
 public:
  // `kernel` is nullptr when the computation is replaced by a wait.
  Comparison(Job& job, const ScheduleRequest& request, const Costs& costs,
             schedule::ComputeKernel* kernel, Model model, const std::string& placement)
      : job_(job),
        request_(request),
        costs_(costs),
        kernel_(kernel),
        model_(std::move(model)),
        placement_(placement) {
    if (request.rho > 0)
      model_ = schedule::with_communication_ratio(model_, costs_.links, request.rho);
  }

  // `told` is called after each method, with the window of its last step.
  void run(std::vector<ScheduleRow>& rows,
           const std::function<void(const ScheduleRow&, ScheduleWindow)>& told) {
    schedule::Trial bench(job_.world(), model_, &job_.trace(), kernel_,
                          job_.servers() > 0 ? &job_ : nullptr);
    for (const std::string& codec : request_.codecs) {
      for (const Method& method : request_.methods) {
        for (const Way way : ways_of(method)) {
          const bool plans = job_.rank() == 0;
          const MessagePlan plan =
              schedule::agreed(job_.world(), plans ? planned(method, codec, way) : MessagePlan());
          ScheduleWindow window{.run_ns = TraceLog::now(),
                                .messages = message_titles(model_, plan)};
          const auto run = bench.run(plan, request_.steps, [&window](int) {
            window.begin_ns = std::exchange(window.end_ns, TraceLog::now());
          });
          rows.push_back(row_of(method, codec, way, plan, run));
          told(rows.back(), std::move(window));
        }
      }
    }
  }

 private:
  std::vector<Way> ways_of(const Method& method) const {
    if (job_.servers() == 0) return {Way::collective};
    if (method.policy->name == "general") return {Way::collective, Way::server, Way::both};
    return {Way::collective, Way::server};
  }

  // A method with a codec has it for all groups, unless its policy chooses a codec for each group.
  MessagePlan planned(const Method& method, const std::string& codec, Way way) const {
    Costs costs = costs_;
    if (way == Way::server) costs.links = schedule::through_servers(costs.links);
    if (way != Way::both) costs.links.server.reset();
    std::erase_if(costs.codecs, [&codec](const schedule::CodecCost& cost) {
      return cost.name != codec && cost.name != schedule::kUncompressed;
    });
    MessagePlan plan = method.policy->make(model_, costs, method.crosses_barrier);
    if (!method.policy->chooses_codecs) plan = schedule::encoded(std::move(plan), codec);
    if (way == Way::server) plan = on_path(schedule::Path::server, std::move(plan));
    return schedule::ordered(std::move(plan), model_, costs_);
  }

  ScheduleRow row_of(const Method& method, const std::string& codec, Way way,
                     const MessagePlan& plan, const schedule::TrialRun& run) const {
    schedule::LinkCosts links = costs_.links;
    if (way == Way::server) links = schedule::through_servers(links);
    if (way != Way::both) links.server.reset();
    const auto bounds = schedule::bounds_of(model_, links, costs_.codec(codec).ratio);
    return {.model = model_.name,
            .method = method.name,
            .plan = schedule::to_string(plan, model_),
            .path = name_of(way),
            .transport = job_.transport(),
            .codec = codec,
            .placement = placement_,
            .ranks = job_.world_size(),
            .servers = job_.servers(),
            .divide = request_.divide,
            .computes = request_.compute,
            .rho = request_.rho,
            .batch = model_.batch,
            .seconds = run.seconds,
            .exposed = run.exposed,
            .compute = bounds.compute,
            .transfer = bounds.transfer,
            .forecast = schedule::iteration_seconds(model_, costs_, plan),
            .bound = plan.crosses_barrier ? bounds.crossing : bounds.with_barrier,
            .errors = run.errors};
  }

  Job& job_;
  const ScheduleRequest& request_;
  const Costs& costs_;
  schedule::ComputeKernel* const kernel_;
  Model model_;
  const std::string placement_;  // of servers
};

std::string text_of(const Costs& costs) {
  std::string text = fmt::format(
      "an all_reduce takes {:.0f} us and {:.2f} ms a MB, and {:.0f} % of a processor; a rank has "
      "{:.1f}\n",
      costs.links.all_reduce.alpha * 1e6, costs.links.all_reduce.beta * 1e9,
      costs.links.processors * 100, costs.processors);
  if (const auto& server = costs.links.server)
    text += fmt::format(
        "a sum on the servers holds a rank's link for {:.0f} us and {:.2f} ms a MB, and takes "
        "{:.0f} "
        "us besides\n",
        server->push.alpha * 1e6, schedule::through_servers(costs.links).all_reduce.beta * 1e9,
        server->turn * 1e6);
  for (const schedule::CodecCost& codec : costs.codecs) {
    if (codec.name == schedule::kUncompressed) continue;
    text += fmt::format(
        "{}: {:.1f} % of the bytes, encodes {:.1f} GB/s, decodes {:.1f} GB/s, {:.0f} us a "
        "message{}\n",
        codec.name, codec.ratio * 100, 1e-9 / codec.encode, 1e-9 / codec.decode, codec.start * 1e6,
        codec.is_linear ? "" : ", all_gather");
  }
  return text;
}

std::string text_of(const std::optional<schedule::ComputeKernel>& kernel) {
  if (!kernel) return "waiting replaces the computation\n";
  return fmt::format("the computation is done by kernels, a product takes {:.2f} us\n",
                     1e6 / kernel->rounds_per_second());
}

int schedule_on(Job& job, const ScheduleOptions& given, const ScheduleRequest& request) {
  const std::string& json = given.json;
  const bool reports = job.rank() == 0, shows = reports && json != "-";
  std::unique_ptr<DurableFile> file;
  on_rank_0(job, [&] {
    if (!json.empty() && json != "-") file = std::make_unique<DurableFile>("report", json);
    if (!given.trace.empty()) check_may_be_written("trace file", given.trace);
    if (!given.svg.empty() && given.svg != "-") check_may_be_written("drawing", given.svg);
  });
  Costs costs =
      schedule::measured_costs(job.world(), request.codecs, schedule::streamed_like(request.models),
                               job.servers() > 0 ? &job : nullptr);
  costs.compute_threads = request.compute ? 1 : 0;
  std::optional<schedule::ComputeKernel> kernel;
  if (request.compute) kernel = schedule::ComputeKernel::calibrated();
  if (shows) {
    fmt::print("{} ranks, {}: {}{}\n{}", job.world_size(), job.transport(), text_of(costs),
               text_of(kernel), schedule_head());
  }
  if (!given.trace.empty() || !given.svg.empty()) job.trace().enable();
  const std::string placement = job.servers() == 0                  ? "none"
                                : given.ranks.servers.hosts.empty() ? "colocated"
                                                                    : "dedicated";
  std::vector<ScheduleRow> rows;
  std::vector<ScheduleWindow> windows;
  for (const Model& model : request.models) {
    const std::size_t first = rows.size();
    Comparison(job, request, costs, kernel ? &*kernel : nullptr, model, placement)
        .run(rows, [&](const ScheduleRow& row, ScheduleWindow window) {
          windows.push_back(std::move(window));
          if (shows) fmt::print("{}", schedule_line(row, rows[first]));
          std::fflush(stdout);
        });
  }
  if (job.trace().enabled()) {
    const auto traces = observe::gather_traces(job.world(), job.trace());
    if (reports && !given.trace.empty()) observe::write_trace(given.trace, traces);
    if (reports && !given.svg.empty())
      write_output("--svg", given.svg, schedule_timeline(rows, windows, traces.front().spans));
  }
  std::int64_t errors = 0;
  for (const ScheduleRow& row : rows) errors += row.errors;
  if (!reports) return 0;
  if (json == "-") fmt::print("{}", schedule_json(rows));
  if (file) file->commit(schedule_json(rows));
  if (shows) fmt::print("\n{}", schedule_verdict(rows));
  if (errors > 0) fmt::print(stderr, "{} gradients were wrong\n", errors);
  return errors > 0 ? 1 : 0;
}

int bench_schedule_main(const std::vector<std::string>& arguments) {
  ScheduleOptions line;
  if (!parse(line.app, arguments)) return 0;
  const ScheduleRequest request = checked(line);
  return run_on_ranks(line.ranks, "schedule", arguments, [&](Job& job, const RanksOptions&) {
    return schedule_on(job, line, request);
  });
}

}  // namespace

namespace catalogue {

Subcommand bench_schedule() {
  return {.name = "schedule",
          .summary = "what schedules of gradients gain on these links",
          .main = bench_schedule_main,
          .described = described<ScheduleOptions>,
          .group = "bench"};
}

}  // namespace catalogue
}  // namespace paceline::cli
