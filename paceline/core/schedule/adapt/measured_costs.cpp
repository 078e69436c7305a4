#include "paceline/core/schedule/adapt/measured_costs.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/replay/trial.h"
#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::schedule {
namespace {

// A stream of messages, back to back, as a schedule sends them. It is so long that capacity which a
// link saved up while idle does not matter.
struct Stream {
  int messages;
  std::size_t bytes;
};
constexpr std::array<Stream, 5> kStreams = {
    {{64, 4 << 10}, {48, 64 << 10}, {16, 1 << 20}, {4, 8 << 20}, {1, 64 << 20}}};
// Streams reach at least this length, so that a line can be fitted to their times.
constexpr std::size_t kLongEnough = 64 << 10;
constexpr int kRepeats = 3;

constexpr Stream kShortCoded = {48, 128 << 10};
Stream long_coded(std::size_t longest) {
  return {16, std::clamp(longest, kLongEnough, kLongestEncoded)};
}

Model model_of(const Stream& stream, std::size_t columns = 0) {
  Tensor tensor{.bytes = stream.bytes};
  const std::size_t row = columns * sizeof(float);
  if (row > 0 && 2 * row <= stream.bytes) {
    tensor.rows = stream.bytes / row;
    tensor.bytes = tensor.rows * row;
  }
  Model model{.name = "stream", .tensors = {}};
  model.tensors.resize(static_cast<std::size_t>(stream.messages), tensor);
  return model;
}

// The least time is that of the links; anything above it is noise of the machine.
double least(const std::vector<double>& seconds) {
  return *std::ranges::min_element(seconds);
}

// The way of a stream: among the ranks, or through the job's servers.
struct Way {
  Communicator& group;
  Job* with_servers = nullptr;
};

TrialRun run_of(const Way& way, const Stream& stream) {
  const Model model = model_of(stream);
  const Path path = way.with_servers == nullptr ? Path::all_to_all : Path::server;
  Trial trial(way.group, model, nullptr, nullptr, way.with_servers);
  return trial.run(on_path(path, wait_free(model)), kRepeats);
}

// If the link is memory, gradients that lie in caches move twice as fast as a model's. The stream
// is then as long as those, or as the data sent in some hundredths of a second.
constexpr double kEnough = 0.04;  // seconds
constexpr std::size_t kMostMemory = 160 << 20;
Stream lengthened(const Stream& stream, double seconds_each, std::size_t gradients) {
  const double messages =
      std::min(kEnough / seconds_each, static_cast<double>(std::min(gradients, kMostMemory)) /
                                           static_cast<double>(stream.bytes));
  return {std::max(stream.messages, static_cast<int>(messages)), stream.bytes};
}

// On a link so slow that a stream would take longer than this, fewer messages suffice, because
// nothing was saved up there.
constexpr double kLongestRun = 5;  // seconds
Stream shortened(const Stream& stream, double seconds_each) {
  const double messages = std::min<double>(stream.messages, kLongestRun / seconds_each);
  return {static_cast<int>(messages), stream.bytes};
}

double mean(const std::vector<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

// A line through the times of streams of messages, and what the long ones took of a processor.
struct StreamCosts {
  topology::Line line;
  double processors = 0;
};

StreamCosts stream_costs(const Way& way, std::size_t longest) {
  StreamCosts costs;
  std::vector<CostPoint> points;
  for (const Stream& stream : kStreams) {
    if (stream.bytes > std::max(longest, kLongEnough)) break;
    const auto bytes = static_cast<double>(stream.bytes);
    Stream taken = stream;
    if (!points.empty())
      taken = shortened(stream, points.back().seconds / points.back().bytes * bytes);
    if (points.size() > 1 && taken.messages == 0) break;
    taken.messages = std::max(taken.messages, 1);
    TrialRun run = run_of(way, taken);
    const Stream longer = lengthened(taken, least(run.seconds) / taken.messages, longest);
    if (longer.messages > taken.messages) run = run_of(way, longer);
    points.push_back({bytes, least(run.seconds) / longer.messages});
    costs.processors = run.worked / mean(run.seconds);  // from the last run, that of long messages
  }
  costs.line = line_through(points);
  return costs;
}

LinkCosts link_costs(Communicator& group, std::size_t longest) {
  LinkCosts costs{.workers = group.size()};
  if (costs.workers == 1) return costs;
  const StreamCosts streams = stream_costs({group}, longest);
  costs.all_reduce = streams.line;
  costs.processors = streams.processors;
  // An all_gather of n bytes from each rank moves half as much as an all_reduce of n bytes times
  // the number of ranks.
  costs.all_gather = {costs.all_reduce.alpha / 2, costs.all_reduce.beta / 2 * costs.workers};
  return costs;
}

// Servers on hosts of their own have links of their own, on which pushes and pulls go side by side.
bool have_own_hosts(const job::JobLinks& links) {
  const std::vector<int>& hosts = links.generation->hosts().of_ranks;
  const auto first_server = hosts.begin() + links.generation->identity().ranks();
  return std::none_of(first_server, hosts.end(), [&](int host) {
    return std::find(hosts.begin(), first_server, host) != first_server;
  });
}

// In a stream the next message is pushed while one is pulled; a message alone also waits for its
// turn at the server.
LinkCosts::Server server_costs(Job& job, Communicator& group, std::size_t longest) {
  const topology::Line line = stream_costs({group, &job}, longest).line;
  constexpr double kPiece = 1 << 20;  // what push_pull sends to a few servers at once
  LinkCosts::Server costs{
      .push = line, .is_duplex = have_own_hosts(job::links_of(job)), .piece_bytes = kPiece};
  costs.pull = {0, line.beta};
  if (!costs.is_duplex) costs.push.beta = costs.pull.beta = line.beta / 2;
  constexpr std::size_t kAlone = 64 << 10;
  const double alone = least(run_of({group, &job}, {1, kAlone}).seconds);
  costs.turn = std::max(0.0, alone - costs.push(kAlone) - costs.pull(kAlone));
  return costs;
}

// The seconds that a stream took beyond these costs, as far as the link did not cause them: within
// a host a codec's messages are copied once more, because they are not in memory of allocate().
double beside_the_link(const Model& model, const MessagePlan& plan, const Costs& costs,
                       const TrialRun& ran) {
  const double seconds = least(ran.seconds);
  double on_link = 0;
  for (const MessageGroup& group : plan.groups) {
    const CodecCost& codec = costs.codec(group.codec);
    on_link += occupancy(costs.links, group.path, wire_bytes(model, group, codec), codec).up;
  }
  const double more = seconds - iteration_seconds(model, costs, plan);
  return std::max(0.0, more) * std::max(0.0, 1 - on_link / seconds);
}

CodecCost codec_cost(Communicator& group, const Costs& costs, const std::string& codec,
                     const Streamed& streamed) {
  const auto run = [&](const Stream& stream, const auto& use) {
    const double seconds_each = costs.links.all_reduce(static_cast<double>(stream.bytes));
    Stream taken = shortened(stream, seconds_each);
    taken.messages = std::max(taken.messages, 2);  // back to back
    const Model model = model_of(taken, streamed.columns);
    Trial bench(group, model);
    const MessagePlan plan = encoded(wait_free(model), codec);
    use(model, plan, bench.run(plan, kRepeats));
  };
  CodecCost cost{.name = codec};
  run(long_coded(streamed.longest),
      [&](const Model& model, const MessagePlan& plan, const TrialRun& ran) {
        const auto& work = ran.codec_work;
        std::vector<double> seconds = {work.encode / work.bytes, work.decode / work.bytes};
        group.all_reduce(buffer_of(seconds), {.op = ReduceOp::average}).wait();
        cost.ratio = work.wire / work.bytes;
        cost.is_linear = !work.gathers;
        cost.encode = seconds[0];
        cost.decode = seconds[1];
        cost.extra_messages = work.exchanges / ((kRepeats + 1) * model.size()) - 1;
        cost.encode += beside_the_link(model, plan, {costs.links, {cost}, costs.processors}, ran) /
                       static_cast<double>(model.bytes());
      });
  run(kShortCoded, [&](const Model& model, const MessagePlan& plan, const TrialRun& ran) {
    const double expected = iteration_seconds(model, {costs.links, {cost}, costs.processors}, plan);
    cost.start = std::max(0.0, least(ran.seconds) - expected) / model.size();
  });
  return cost;
}

// Measures each offer of a menu by itself; a tensor that travels whole takes an all_reduce, also
// among others that do not.
CodecCost cost_of(Communicator& group, const Costs& costs, const std::string& codec,
                  const Streamed& streamed) {
  const auto compression = compress::parse_compression(codec, compress::built_in_methods()).value();
  if (compression.menu.empty()) return codec_cost(group, costs, codec, streamed);
  std::vector<CodecCost> offers;
  for (int offer = 0; !compression.is_whole(offer); ++offer) {
    offers.push_back(codec_cost(group, costs, compression.text_of_offer(offer), streamed));
  }
  CodecCost cost = offers.front();
  cost.name = codec;
  const LinkCosts& links = costs.links;
  offers.push_back({.ratio = cost.is_linear || links.workers == 1
                                 ? 1
                                 : links.all_reduce.beta / links.all_gather.beta});
  cost.offers = std::move(offers);
  return cost;
}

}  // namespace

// Points are weighted by 1 / seconds, so that short messages count as much as long ones.
topology::Line line_through(std::span<const CostPoint> points) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const CostPoint& point : points) {
    const double weight = 1 / (point.seconds * point.seconds);
    w += weight;
    x += weight * point.bytes;
    y += weight * point.seconds;
    xx += weight * point.bytes * point.bytes;
    xy += weight * point.bytes * point.seconds;
  }
  const double beta = (w * xy - x * y) / (w * xx - x * x);
  const double alpha = (y - beta * x) / w;
  if (alpha >= 0 && beta > 0) return {alpha, beta};
  return {0, xy / xx};
}

Costs measured_costs(Communicator& group, std::span<const std::string> codecs,
                     const Streamed& streamed, Job* with_servers) {
  Costs costs{.links = link_costs(group, streamed.longest),
              .processors = processors_of_each(group)};
  if (with_servers != nullptr)
    costs.links.server = server_costs(*with_servers, group, streamed.longest);
  for (const std::string& codec : codecs) {
    if (codec != kUncompressed) costs.codecs.push_back(cost_of(group, costs, codec, streamed));
  }
  return costs;
}

Streamed streamed_like(std::span<const Model> models) {
  Streamed streamed{.longest = 0};
  Tensor largest;
  for (const Model& model : models) {
    streamed.longest = std::max(streamed.longest, model.bytes());
    for (const Tensor& tensor : model.tensors)
      if (tensor.bytes > largest.bytes) largest = tensor;
  }
  streamed.columns = columns_of(largest, sizeof(float));
  return streamed;
}

}  // namespace paceline::schedule
