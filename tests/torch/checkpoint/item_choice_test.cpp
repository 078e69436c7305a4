#include "paceline/torch/checkpoint/item_choice.h"

#include "tests/torch/checkpoint/small_run.h"

namespace paceline::checkpointing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<NamedPart> parts_named(const std::vector<std::string>& names) {
  std::vector<NamedPart> parts;
  parts.push_back({kRandomItem, random_part(), NamedPart::Kind::random});
  for (const std::string& name : names)
    parts.push_back({name, fields_part([](CheckpointFields&) {}),
                     name == "model" ? NamedPart::Kind::model : NamedPart::Kind::other});
  return parts;
}

checkpoint::Manifest manifest_with(const std::vector<std::string>& names) {
  checkpoint::Manifest manifest;
  manifest.items.push_back({.name = kRandomItem});
  for (const std::string& name : names) manifest.items.push_back({.name = name});
  return manifest;
}

ItemChoice::Chosen chosen(const CheckpointOptions& options, const std::vector<std::string>& saved,
                          const std::vector<std::string>& own) {
  const auto parts = parts_named(own);
  const ItemChoice choice(options);
  choice.require_known(parts);
  return choice.of(manifest_with(saved), parts, "run/step-00000008");
}

TEST(ItemChoice, WithoutOptionsProgramAndCheckpointMustHaveTheSameItems) {
  const auto all = chosen({}, {"model", "mine", kStepsItem}, {"model", "mine"});
  EXPECT_THAT(all.loaded, ElementsAre(kRandomItem, "model", "mine"));
  EXPECT_EQ(all.told, "");
  EXPECT_THAT(failure_of([] {
                chosen({}, {"model"}, {"model", "mine"});
              }),
              AllOf(HasSubstr("this program has an item 'mine'"), HasSubstr("step-00000008"),
                    HasSubstr("CheckpointOptions{.ignore = {\"mine\"}}")));
  EXPECT_THAT(failure_of([] {
                chosen({}, {"model", "mine", "ema"}, {"model", "mine"});
              }),
              HasSubstr("the checkpoint has an item 'ema'"));
}

TEST(ItemChoice, OnlyAndIgnoreNameItemsAndWhatIsLeftOutIsToldInOneLine) {
  const auto only = chosen({.only = {"model"}}, {"model", "ema"}, {"model", "optimizer"});
  EXPECT_THAT(only.loaded, ElementsAre("model"));
  EXPECT_EQ(only.told,
            "of run/step-00000008 this run leaves out 'random', 'ema'; 'optimizer' begins anew");
  const auto without =
      chosen({.ignore = {"ema", "optimizer"}}, {"model", "ema"}, {"model", "optimizer"});
  EXPECT_THAT(without.loaded, ElementsAre(kRandomItem, "model"));
  EXPECT_EQ(without.told,
            "of run/step-00000008 this run leaves out 'ema'; 'optimizer' begins anew");
}

TEST(ItemChoice, UnknownNamesAndBothOptionsAreRefused) {
  EXPECT_THAT(failure_of([] { chosen({.only = {"modle"}}, {"model"}, {"model"}); }),
              AllOf(HasSubstr("only names an item 'modle'"), HasSubstr("'random', 'model'")));
  EXPECT_THAT(failure_of([] {
                chosen({.ignore = {"emma"}}, {"model", "ema"}, {"model"});
              }),
              AllOf(HasSubstr("ignore names an item 'emma'"), HasSubstr("'ema'")));
  EXPECT_THAT(failure_of([] {
                chosen({.only = {"mine"}}, {"model"}, {"model", "mine"});
              }),
              HasSubstr("this program has an item 'mine', and the checkpoint has none"));
  EXPECT_THAT(failure_of([] { chosen({.only = {"a"}, .ignore = {"b"}}, {}, {}); }),
              HasSubstr("both .only and .ignore"));
}

TEST(ItemChoice, AProgramThatAddsNothingButModelsTakesThemOutOfAnyCheckpoint) {
  const auto model = chosen({}, {"model", "optimizer", "parallel"}, {"model"});
  EXPECT_THAT(model.loaded, ElementsAre(kRandomItem, "model"));
  EXPECT_EQ(model.told, "of run/step-00000008 this run leaves out 'optimizer', 'parallel'");
  EXPECT_THAT(failure_of([] { chosen({}, {"net"}, {"model"}); }),
              HasSubstr("this program has an item 'model'"));
}

TEST(ItemChoice, OfItsOwnCheckpointsAStartedAgainRunTakesAll) {
  const auto parts = parts_named({"model", "mine"});
  const auto all = ItemChoice::all(manifest_with({"model", "mine"}), parts, "run/step-00000008");
  EXPECT_THAT(all.loaded, ElementsAre(kRandomItem, "model", "mine"));
  EXPECT_THAT(all.told, IsEmpty());
}

}  // namespace
}  // namespace paceline::checkpointing
