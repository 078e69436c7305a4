#include "paceline/app/cli/bench/collective_options.h"

#include <fmt/format.h>

#include <functional>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"

namespace paceline::cli {
namespace {

constexpr const char* kCollectiveAbout =
    "Measures a collective operation: time, bandwidth, and whether its results are right, for each "
    "size and algorithm.\n"
    "Candidates alternate in blocks in the same processes; every rank rewrites its buffer "
    "before and reads it after\n"
    "each operation, untimed; an operation takes as long as its slowest rank.";

constexpr const char* kCollectiveMore = R"(Examples:
  paceline bench collective --ranks 2 --sizes 4..256MiB
  paceline bench collective --ranks 2 --algorithms all --yardstick --html all_reduce.html
  paceline bench collective --operation all_gather --ranks 4 --dtype bf16 --json all_gather.json
  paceline bench collective --hosts a:2,b:2 --algorithms direct,ring --determinism fast
  mpirun -n 4 paceline bench collective        takes part as a rank, as under paceline run and srun

A size is that of the whole vector; for operations in which each rank has a part, that of all parts together.
`A..B` goes from A to B by factors of 4, `A,B,C` is a list; KiB, MiB, GiB. Bus bandwidth has the factors of nccl-tests.
--yardstick compares all_reduce of f32 on one host with the plainest loop that does the same in shared memory: each rank
adds up its part of all buffers and stores the sum into all of them. The ratio is the median of the blocks' ratios, with
p10 and p90. Rank 0 writes files, on its host, at the end; - is stdout, without the table.

Exit codes: 0 done; 1 a result was wrong, or a rank failed; 2 wrong usage; else as `paceline run`
)";

// Finds the value of that name among the `allowed` ones from `first` on.
template <typename T>
T parse_name(std::string_view option, const std::string& text, T first,
             const std::function<bool(T)>& allowed) {
  std::vector<std::string> names;
  for (int number = static_cast<int>(first);
       name_of(static_cast<T>(number)) != name_of(static_cast<T>(0)); ++number) {
    const T value = static_cast<T>(number);
    if (!allowed(value)) continue;
    if (name_of(value) == text) return value;
    names.emplace_back(name_of(value));
  }
  parse_choice(option, text, names);
  return first;
}

std::vector<std::string> parse_algorithms(const std::string& text, Operation operation) {
  std::vector<std::string> known = {"all", "automatic"};
  for (const auto& algorithm : collective::built_in_algorithms()) {
    if (algorithm.operation == operation) known.emplace_back(algorithm.name);
  }
  if (operation == Operation::all_reduce) known.emplace_back(kBoard);
  auto names = parse_list("--algorithms", text);
  for (const std::string& name : names) parse_choice("--algorithms", name, known);
  return names;
}

// The number that CollectiveRequest::device has for it.
int parse_device(const std::string& text) {
  if (text.empty() || text == "host") return -1;
  if (text == "cuda") return CollectiveRequest::kOfEachRank;
  PACELINE_CHECK(text.starts_with("cuda:"), "--device: '{}' is none of host, cuda and cuda:N",
                 text);
  return parse_count("--device cuda:", text.substr(5), 0, 1023);
}

void check_yardstick(const CollectiveOptions& given, const CollectiveRequest& request) {
  PACELINE_CHECK(!given.yardstick ||
                     (request.operation == Operation::all_reduce && request.dtype == Dtype::f32),
                 "--yardstick: it is an all_reduce of f32 and compares with nothing else; "
                 "leave it out");
}

}  // namespace

CollectiveOptions::CollectiveOptions() : app(kCollectiveAbout, "paceline bench collective") {
  const auto add = adder(app, kCollectiveMore);
  add("--operation", operation, "NAME",
      "all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, all_to_all, "
      "barrier (all_reduce)");
  add_ranks_options(app, ranks);
  add("--sizes", sizes, "LIST", "bytes, as 4..256MiB or 4,64KiB (4..64MiB)");
  add("--algorithms", algorithms, "LIST",
      "all: every algorithm that is allowed; automatic: Paceline's choice; or names (automatic)");
  add("--dtype", dtype, "NAME", "f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool (f32)");
  add("--buffers", buffers, "NAME",
      "allocate: shared memory from Job::allocate; ordinary: the heap (allocate)");
  add("--device", device, "NAME",
      "in whose memory buffers lie: host; cuda: for each rank the device with its number among the "
      "ranks of its host, in turn; or cuda:N (host)");
  add("--bind", bind, "NAME",
      "cores: each rank on a processor of its own, if there are enough; none: where the system "
      "puts "
      "them, as under launchers that bind nobody (cores)");
  add("--blocks", blocks, "N", "blocks of each candidate (9)");
  add("--operations", operations, "N",
      "operations in a block (20, more of short ones, fewer of very long ones)");
  app.add_flag("--yardstick", yardstick, "measure the physical limit of shared memory too");
  app.add_flag("--back-to-back", back_to_back,
               "measure as bench/against measures other libraries: operations without a pause, "
               "buffers left alone, times of rank 0");
  add("--json", json, "FILE", "write the figures as JSON");
  add("--html", html, "FILE", "write a page with plots");
  add("--csv", csv, "FILE", "write the lines that bench/against reads");
}

CollectiveRequest checked(const CollectiveOptions& given) {
  constexpr int kMostBlocks = 100'000;
  CollectiveRequest request;
  request.operation = parse_name<Operation>(
      "--operation", given.operation, Operation::all_reduce,
      [](Operation o) { return o != Operation::send && o != Operation::recv; });
  request.dtype =
      parse_name<Dtype>("--dtype", given.dtype, Dtype::f64, [](Dtype d) { return is_known(d); });
  request.sizes = parse_sizes("--sizes", given.sizes);
  if (request.operation == Operation::barrier) request.sizes = {0};
  request.algorithms = parse_algorithms(given.algorithms, request.operation);
  request.compare.blocks = parse_count("--blocks", given.blocks, 1, kMostBlocks);
  if (!given.operations.empty())
    request.compare.operations = parse_count("--operations", given.operations, 1, kMostBlocks);
  request.compare.ordinary_buffers =
      parse_choice("--buffers", given.buffers, {"allocate", "ordinary"}) == "ordinary";
  request.device = parse_device(given.device);
  PACELINE_CHECK(request.device == -1 || !given.yardstick,
                 "--yardstick: it is that of shared memory; leave it out beside --device");
  request.bind = parse_choice("--bind", given.bind, {"cores", "none"}) == "cores";
  request.compare.yardstick = given.yardstick;
  request.compare.back_to_back = given.back_to_back;
  check_yardstick(given, request);
  return request;
}

}  // namespace paceline::cli
