// Expected seconds are those of an oracle in Python (docs/acceptance.md), run on the same inputs.
#include "paceline/core/schedule/simulation/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/survey_methods.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/bounds.h"
#include "paceline/core/schedule/simulation/fusion.h"
#include "tests/core/schedule/example_costs.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

struct Case {
  Model model;
  Costs costs;
  MessagePlan plan;
  Conditions conditions;
};

Model random_model(SeededNumbers& numbers) {
  constexpr std::uint64_t kMost[] = {100, 20000, 400000};
  Model model{.name = "random"};
  const auto tensors = 2 + numbers.below(11);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    Tensor tensor{.bytes = 4 * (1 + numbers.below(kMost[numbers.below(3)]))};
    tensor.forward = numbers.unit() * 1e-3;
    tensor.backward = numbers.below(4) == 0 ? 0 : numbers.unit() * 2e-3;
    tensor.update = numbers.unit() * 1e-4;
    model.tensors.push_back(tensor);
  }
  return model;
}

LinkCosts random_links(SeededNumbers& numbers) {
  Link link{.workers = static_cast<int>(2 + numbers.below(7))};
  link.bytes_per_second = numbers.below(2) == 0 ? 1.25e8 : 1.25e9;
  link.servers = numbers.below(2) == 0 ? Servers::dedicated : Servers::colocated;
  return costs_of(link);
}

MessageGroup random_group(SeededNumbers& numbers, int begin, int tensors) {
  const char* const codecs[] = {"none", "fp16", "int8", "top_k"};
  constexpr std::size_t kParts[] = {0, 100000, 300000};
  MessageGroup group{.begin = begin};
  group.end = std::min(tensors, begin + 1 + static_cast<int>(numbers.below(4)));
  group.codec = codecs[numbers.below(4)];
  group.path = numbers.below(2) == 0 ? Path::all_to_all : Path::server;
  group.part_bytes = kParts[numbers.below(3)];
  const auto kind = numbers.below(3);
  const auto any = static_cast<int>(numbers.below(5));
  if (kind > 0) group.priority = kind == 1 ? tensors - group.end : any;
  return group;
}

Case random_case(std::uint64_t seed) {
  constexpr std::size_t kWindows[] = {0, 200000, 600000};
  SeededNumbers numbers(seed);
  Case one{.model = random_model(numbers), .costs = {}, .plan = {.name = "random"}};
  one.costs.links = random_links(numbers);
  for (const CodecCost& codec : example_codecs()) one.costs.codecs.push_back(codec);
  for (int begin = 0; begin < one.model.size(); begin = one.plan.groups.back().end)
    one.plan.groups.push_back(random_group(numbers, begin, one.model.size()));
  one.plan.crosses_barrier = numbers.below(2) == 1;
  one.plan.window_bytes = kWindows[numbers.below(3)];
  one.conditions.interference = numbers.below(2) == 0 ? 0 : .4;
  one.conditions.encodes_on_compute = numbers.below(2) == 1;
  return one;
}

constexpr double kOfRandomCases[] = {
    0.0305922255235,  0.0112798525814,  0.00815622758615, 0.0208400718308,  0.00419811380809,
    0.0138745251965,  0.0066988715614,  0.00737045560709, 0.0056709497841,  0.0149238457416,
    0.0226766144761,  0.0018671153037,  0.0066154611753,  0.0154329935853,  0.0138025430328,
    0.00296110086015, 0.0199419721352,  0.0134239260883,  0.0174256660141,  0.0356961447278,
    0.00796355629217, 0.0103958714047,  0.00446959180317, 0.0147819291819,  0.0598922851613,
    0.00295959767071, 0.003066083336,   0.0107852374191,  0.0130888469113,  0.00558747151817,
    0.0113230849116,  0.0349078243079,  0.0227119861349,  0.00762987509312, 0.00341666965769,
    0.00605734499071, 0.0111636180661,  0.00971999505806, 0.0202185371716,  0.0138516188891,
    0.00688483818013, 0.0181465473028,  0.0117241078594,  0.0109209852753,  0.00766565134866,
    0.0431490872241,  0.0121341803667,  0.00785317356372, 0.0129403772973,  0.0148317121264,
    0.0140780017616,  0.00315818229225, 0.0182335549513,  0.0211706966935,  0.0262956945472,
    0.0173394647733,  0.0140180491121,  0.0162365253664,  0.0309646995656,  0.0185830442959,
    0.00683542528651, 0.0118129405737,  0.00281386860377, 0.0105473165357,  0.00523571880502,
    0.0175163904761,  0.0306327482348,  0.012228106849,   0.0116074177939,  0.0257574202924,
    0.0089899566096,  0.00669508823996, 0.0165547936587,  0.009031341257,   0.0218063662533,
    0.0116241674253,  0.00821832096026, 0.00654642768423, 0.00462777548491, 0.0152294251932,
    0.00446700908697, 0.00795047616607, 0.0160143079587,  0.00213905570533, 0.00672813358965,
    0.0174684887158,  0.00894587902949, 0.00760204385387, 0.0242323101804,  0.0147102726779,
    0.0147101697557,  0.00451335940803, 0.00787055736184, 0.00342472297507, 0.00807975029319,
    0.0260236675827,  0.0169819178444,  0.0253263655365,  0.0275264549618,  0.0071113541369,
    0.00631027191579, 0.0170927096801,  0.0072719268423,  0.0376561309869,  0.0187918001746,
    0.00793901632027, 0.00551949483724, 0.042155665365,   0.00756281829822, 0.00610062644615,
    0.00673716348567, 0.0261707782971,  0.00899435284142, 0.0253501570346,  0.0245704034926,
    0.0149217342348,  0.0210563446197,  0.0101078778355,  0.0184805428938,  0.0183911331547,
};

TEST(Simulation, AgreesWithTheExecutedModelOnRandomPlansOfEveryKind) {
  std::uint64_t seed = 0;
  for (const double expected : kOfRandomCases) {
    const Case one = random_case(++seed);
    EXPECT_NEAR(iteration_seconds(one.model, one.costs, one.plan, one.conditions), expected,
                1e-9 * expected)
        << "seed " << seed;
  }
}

struct Seven {
  const char* model;
  Servers servers;
  double gigabits;  // at 10 the links disturb the computation by 0.4
  double seconds[7];
};

constexpr Seven kSeven[] = {
    {"ResNet-50",
     Servers::dedicated,
     1,
     {1.10403802496, 1.479837536, 0.935785113926, 1.343937536, 1.31242162593, 0.85451112159,
      1.27626869572}},
    {"ResNet-50",
     Servers::dedicated,
     10,
     {0.338553802496, 0.3757737536, 0.283687169119, 0.297324757029, 0.289339239314, 0.283667922307,
      0.297324757029}},
    {"ResNet-50",
     Servers::colocated,
     1,
     {1.480237536, 1.479837536, 1.31535362593, 1.343937536, 1.31242162593, 1.23403963359,
      1.27626869572}},
    {"ResNet-50",
     Servers::colocated,
     10,
     {0.3761737536, 0.3757737536, 0.2890961856, 0.297324757029, 0.289339239314, 0.2890961856,
      0.297324757029}},
    {"BERT-Base",
     Servers::dedicated,
     1,
     {3.85923883793, 5.586330016, 3.71234052285, 5.47627277461, 5.43671636174, 3.6249424657,
      5.40830312139}},
    {"BERT-Base",
     Servers::dedicated,
     10,
     {0.658677883793, 0.8295330016, 0.513671891428, 0.719775834513, 0.72019241659, 0.470092370787,
      0.665974585226}},
    {"BERT-Base",
     Servers::colocated,
     1,
     {5.588390016, 5.586330016, 5.4414358912, 5.47627277461, 5.43671636174, 5.35829783404,
      5.40830312139}},
    {"BERT-Base",
     Servers::colocated,
     10,
     {0.8315930016, 0.8295330016, 0.684838691656, 0.719775834513, 0.72019241659, 0.608784836469,
      0.665974585226}},
    {"BERT-Large",
     Servers::dedicated,
     1,
     {10.9620156975, 16.302548384, 10.8944129746, 16.3070000219, 16.2280606987, 10.8135969272,
      16.2456377937}},
    {"BERT-Large",
     Servers::dedicated,
     10,
     {1.24909356975, 1.7773148384, 1.18205998506, 1.78176647626, 1.70592038404, 1.1061269193,
      1.72140828917}},
    {"BERT-Large",
     Servers::colocated,
     1,
     {16.309028384, 16.302548384, 16.2418600219, 16.3070000219, 16.2280606987, 16.1664695096,
      16.2456377937}},
    {"BERT-Large",
     Servers::colocated,
     10,
     {1.7837948384, 1.7773148384, 1.71679415309, 1.78176647626, 1.70592038404, 1.64140364086,
      1.72140828917}},
};

TEST(Simulation, AgreesWithTheExecutedModelOnTheSurveysSeven) {
  for (const Seven& one : kSeven) {
    const Model model = replay_model(one.model);
    const Costs costs{
        costs_of({.bytes_per_second = one.gigabits * 1.25e8, .servers = one.servers})};
    const Conditions conditions{.interference = one.gigabits == 10 ? .4 : 0};
    std::size_t i = 0;
    for (const MessagePlan& plan : survey_methods(model, costs.links)) {
      const double expected = one.seconds[i++];
      EXPECT_NEAR(iteration_seconds(model, costs, plan, conditions), expected, 1e-9 * expected)
          << one.model << " " << plan.name;
    }
  }
}

TEST(Simulation, OfOneSerialLinkEndsWhenTheRecursionSays) {
  for (const Model& model : replay_models()) {
    for (const double rate : {1e8, 1e9, 1e10}) {
      const Costs costs{costs_of({.bytes_per_second = rate})};
      const MessagePlan merge = merged(model, costs.links);
      for (const MessagePlan& plan : {barrier(model), wait_free(model), merge}) {
        const double end = serial_end(ready_times(model), sent_bytes(model), costs.links.all_reduce,
                                      cuts_of(plan));
        EXPECT_NEAR(iteration_seconds(model, costs, plan), end + model.update(), 1e-9 * end);
      }
    }
  }
}

TEST(Simulation, NeverTakesLessThanTheBounds) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Case one = random_case(test::seed(seed));
    double ratio = 1;
    for (const MessageGroup& group : one.plan.groups)
      ratio = std::min(ratio, one.costs.codec(group.codec).ratio);
    const Bounds bounds = bounds_of(one.model, one.costs.links, ratio);
    EXPECT_GE(iteration_seconds(one.model, one.costs, one.plan, one.conditions),
              (one.plan.crosses_barrier ? bounds.crossing : bounds.with_barrier) * (1 - 1e-9))
        << "seed " << seed;
  }
}

TEST(Simulation, InterferenceNeverHelpsAPlanWithABarrierOfTheSeven) {
  for (const Model& model : replay_models()) {
    const Costs costs{costs_of({})};
    for (const MessagePlan& plan : survey_methods(model, costs.links, false)) {
      EXPECT_GE(iteration_seconds(model, costs, plan, {.interference = .4}),
                iteration_seconds(model, costs, plan) * (1 - 1e-12));
    }
  }
}

// A message of a tensor, with a codec that takes 3 seconds to encode and 2 to decode, and a
// transfer of 4 that keeps `link` of a processor busy.
double seconds_of_one_message(double processors, double link) {
  const Model model{.name = "one", .tensors = {{.bytes = 1000000, .forward = 1, .backward = 1}}};
  const Costs costs{.links = {.all_reduce = {0, 8e-6}, .processors = link},
                    .codecs = {{.name = "half", .ratio = .5, .encode = 3e-6, .decode = 2e-6}},
                    .processors = processors};
  return iteration_seconds(model, costs, encoded(barrier(model), "half"));
}

TEST(Simulation, AMessagePassesEncoderLinkAndDecoderEachAtTheSpeedOfItsProcessors) {
  EXPECT_DOUBLE_EQ(seconds_of_one_message(std::numeric_limits<double>::infinity(), .3), 11);
  EXPECT_DOUBLE_EQ(seconds_of_one_message(1, .3), 11);
  EXPECT_DOUBLE_EQ(seconds_of_one_message(.5, .3), 2 + 3 / .5 + 4 + 2 / .5);
  EXPECT_DOUBLE_EQ(seconds_of_one_message(.25, .5), 2 + 3 / .25 + 4 * 2 + 2 / .25);
}

TEST(Simulation, EachTensorTakesWhatItsOfferTakes) {
  const CodecCost slow{.ratio = .5, .encode = 3e-6, .decode = 2e-6}, quick{.ratio = .25};
  const Costs costs{.links = {.all_reduce = {0, 8e-6}},
                    .codecs = {{.name = "menu", .offers = {slow, quick}}}};
  for (const int offer : {0, 1}) {
    const Model model{.name = "one", .tensors = {{.bytes = 1000000, .offer = offer}}};
    EXPECT_DOUBLE_EQ(iteration_seconds(model, costs, encoded(barrier(model), "menu")),
                     offer == 0 ? 3 + 4 + 2 : 2);
  }
}

// With many messages, one is encoded and one decoded while one is on the link: the steady state of
// three resources in a row, in which the codecs share the processor time that the link leaves.
TEST(Simulation, CodecsShareWhatTheLinkLeaves) {
  const int messages = 100;
  const Model model{.name = "one", .tensors = {{.bytes = 4000 * messages}}};
  const Costs costs{.links = {.all_reduce = {0, 1e-6}, .processors = .4},
                    .codecs = {{.name = "same", .encode = 1e-6, .decode = 1e-6}},
                    .processors = 1};
  const MessagePlan plan =
      plan_of("parts", one_group(1), {.part_bytes = 4000, .codec = std::string("same")});
  const double one = 4000 * 1e-6, codecs = 2 * one * messages, link = .4 * one * messages;
  const double seconds = iteration_seconds(model, costs, plan);
  EXPECT_GE(seconds, codecs + link);  // all that the processor has to do
  EXPECT_LE(seconds, codecs + link + 3 * one);
}

// The second gradient is computed while the message of the first is on the link for 2 seconds.
double seconds_of_two_gradients(double processors, double link, double compute_threads) {
  const Model model{
      .name = "two",
      .tensors = {{.bytes = 1000000, .backward = 4}, {.bytes = 1000000, .backward = 1}}};
  const Costs costs{.links = {.all_reduce = {0, 2e-6}, .processors = link},
                    .processors = processors,
                    .compute_threads = compute_threads};
  return iteration_seconds(model, costs, wait_free(model));
}

TEST(Simulation, ComputationThatTakesProcessorsHasWhatTheLinkLeaves) {
  for (const double link : {0.0, .1, .25, .5}) {
    EXPECT_DOUBLE_EQ(seconds_of_two_gradients(1, link, 0), 7) << link;
    EXPECT_DOUBLE_EQ(seconds_of_two_gradients(1.5, link, 1), 7) << link;
    EXPECT_DOUBLE_EQ(seconds_of_two_gradients(1, link, 1), 7 + 2 * link) << link;
    EXPECT_DOUBLE_EQ(seconds_of_two_gradients(2, link, 2), 7 + link) << link;
  }
  EXPECT_DOUBLE_EQ(seconds_of_two_gradients(std::numeric_limits<double>::infinity(), .5, 1), 7);
}

TEST(Simulation, OfProcessorsThatAllShareNothingIsDoneFasterThanTheirWork) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Case one = random_case(test::seed(seed));
    one.plan.crosses_barrier = false;
    one.plan = plan_of("one codec", cuts_of(one.plan), {.codec = "fp16"});
    for (Tensor& tensor : one.model.tensors) tensor.bytes += std::size_t{1} << 16;
    const CodecCost& codec = one.costs.codec("fp16");
    double work = one.model.compute();
    for (const Tensor& tensor : one.model.tensors)
      work += static_cast<double>(tensor.bytes) * (codec.encode + codec.decode);
    one.costs.links.processors = .3;
    one.costs.compute_threads = 1;
    for (const double processors : {3.3, 1.5, 1.0, .4}) {
      one.costs.processors = processors;
      EXPECT_GE(iteration_seconds(one.model, one.costs, one.plan), work / processors * (1 - 1e-9))
          << seed << " " << processors;
    }
  }
}

// This holds for one message after the other: where some overtake, slower may be better.
TEST(Simulation, FewerProcessorsNeverHelpAndEnoughChangeNothing) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Case one = random_case(test::seed(seed));
    one.plan.crosses_barrier = false;
    one.plan = plan_of("one codec", cuts_of(one.plan), {.codec = "fp16"});
    for (Tensor& tensor : one.model.tensors) tensor.bytes += std::size_t{1} << 16;
    one.conditions = {};
    one.costs.links.processors = .3;
    double former = iteration_seconds(one.model, one.costs, one.plan);
    for (const double processors : {2.3, 1.5, 1.0, .6, .4, .2}) {
      one.costs.processors = processors;
      const double seconds = iteration_seconds(one.model, one.costs, one.plan);
      EXPECT_TRUE(seconds == former || processors < 2);
      EXPECT_GE(seconds, former * (1 - 1e-12)) << seed << " " << processors;
      former = seconds;
    }
  }
}

TEST(Simulation, GivesUpOnlyOnWhatExceedsTheLimit) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Case one = random_case(test::seed(seed));
    const double whole = iteration_seconds(one.model, one.costs, one.plan, one.conditions);
    const auto within = [&](double limit) {
      return iteration_seconds_within(limit, one.model, one.costs, one.plan, one.conditions);
    };
    EXPECT_EQ(within(whole), whole);
    EXPECT_EQ(within(whole / 2),
              one.plan.crosses_barrier ? whole : std::numeric_limits<double>::infinity());
  }
}

TEST(Simulation, RefusesWhatDoesNotFitTogether) {
  const Model model = resnet_50();
  const Costs alone{costs_of({.servers = Servers::none})};
  EXPECT_THROW(iteration_seconds(bert_base(), alone, barrier(model)), Error);
  EXPECT_THROW(iteration_seconds(model, alone, barrier(model, {.path = Path::server})), Error);
  const MessagePlan coded = plan_of("coded", one_group(model.size()), {.codec = "int8"});
  EXPECT_THROW(iteration_seconds(model, alone, coded), Error);
}

TEST(Ordered, HasEachMessageOnceAndGoesByThePlanWhereNothingHasPriority) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Case c = random_case(test::seed(seed));
    std::vector<int> messages;
    bool has_priorities = false;
    for (std::size_t g = 0; g < c.plan.groups.size(); ++g) {
      const auto parts = static_cast<std::size_t>(parts_of(c.model, c.plan.groups[g]));
      messages.insert(messages.end(), parts, static_cast<int>(g));
      has_priorities |= c.plan.groups[g].priority.has_value();
    }
    std::vector<int> order = ordered(c.plan, c.model, c.costs, c.conditions).order;
    if (has_priorities) std::ranges::sort(order);
    EXPECT_EQ(order, messages) << seed;
  }
}

TEST(Ordered, LetsWhatIsReadFirstOvertakeWhatIsReadyAndNotHandedOver) {
  const Model model{.name = "three",
                    .tensors = {{.bytes = 400, .backward = 1e-6},
                                {.bytes = 400, .backward = 1e-6},
                                {.bytes = 400, .backward = 1e-6}}};
  Costs slow;
  slow.links.all_reduce = {0, 1e-3};
  for (const bool crosses_barrier : {false, true}) {
    const MessagePlan plan = priority(
        model, {.part_bytes = 200, .window_bytes = 200, .crosses_barrier = crosses_barrier});
    EXPECT_EQ(ordered(plan, model, slow).order, (std::vector{0, 2, 2, 1, 1, 0}));
  }
}

}  // namespace
}  // namespace paceline::schedule
