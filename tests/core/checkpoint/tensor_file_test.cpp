#include "paceline/core/checkpoint/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/crash_disk.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint {
namespace {

using ::testing::HasSubstr;

const std::vector<StoredTensor> kTensors = {{"b", Dtype::f64, {2, 3}, 0, 48},
                                            {"a \"quoted\"", Dtype::bf16, {}, 48, 50},
                                            {"none", Dtype::f32, {0, 7}, 50, 50}};

Result<TensorFileHeader> parsed(const std::string& json, std::uint64_t data_bytes) {
  return parse_header("file f", json, kHeaderLengthBytes + json.size() + data_bytes);
}

TEST(TensorFile, AHeaderIsReadAsItWasWrittenAndDataBeginAligned) {
  const std::string header = encode_header(kTensors, {{"format", "pt"}});
  EXPECT_EQ(header.size() % 8, 0U);
  const auto length =
      header_length("f", std::as_bytes(std::span(header)).first(8), header.size() + 50).value();
  EXPECT_EQ(length, header.size() - kHeaderLengthBytes);
  const auto read = parsed(header.substr(kHeaderLengthBytes), 50).value();
  EXPECT_EQ(read.tensors, kTensors);
  EXPECT_EQ(read.metadata.at("format"), "pt");
  EXPECT_EQ(read.data_begin, header.size());
}

TEST(TensorFile, EveryElementTypeHasItsName) {
  for (int number = 0; number < 256; ++number) {
    const auto dtype = static_cast<Dtype>(number);
    if (!is_known(dtype)) continue;
    EXPECT_EQ(dtype_of_safetensors(safetensors_name(dtype)), dtype);
  }
  EXPECT_FALSE(dtype_of_safetensors("F8_E4M3"));
}

TEST(TensorFile, AHeaderThatCannotBeTrueIsRefusedWithItsTensor) {
  const auto refusal = [](const std::string& json, std::uint64_t data_bytes = 8) {
    const auto read = parsed(json, data_bytes);
    return read ? "accepted" : read.error().what;
  };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_THAT(refusal(good, 9), HasSubstr("take 8 bytes, and it has 9"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
              HasSubstr("tensor a"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F8","shape":[8],"data_offsets":[0,8]}})"),
              HasSubstr("does not know its dtype F8"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"),
              HasSubstr("differ in length"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("instead of 0"));
  EXPECT_THAT(
      refusal(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
      HasSubstr("differ in length"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
              HasSubstr("no list"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})"),
              HasSubstr("its entry"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
              HasSubstr("key 'a' is there twice"));
  EXPECT_THAT(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                      4),
              HasSubstr("tensor b begins at byte 0 of the data instead of 4"));
  EXPECT_THAT(refusal(R"({"__metadata__":{"a":1}})", 0), HasSubstr("more than texts"));
  EXPECT_THAT(refusal("[]", 0), HasSubstr("no JSON object"));
}

TEST(TensorFile, ALengthOfAHeaderIsBoundedByTheFile) {
  const auto refused = [](std::uint64_t length, std::uint64_t file) {
    return !header_length("f", bytes_of(length), file);
  };
  EXPECT_FALSE(refused(92, 100));
  EXPECT_TRUE(refused(93, 100));
  EXPECT_TRUE(refused(~std::uint64_t{0}, 100));
  EXPECT_TRUE(refused(kLongestHeader + 1, kLongestHeader + 100));
  EXPECT_TRUE(refused(0, 7));
}

// A header of any bytes is refused, or all that it tells lies inside of the file.
TEST(TensorFile, MutatedHeadersAreRefusedOrHarmless) {
  SeededNumbers numbers(test::seed(3));
  const std::string good = encode_header(kTensors, {{"format", "pt"}}).substr(kHeaderLengthBytes);
  for (int round = 0; round < 5000; ++round) {
    std::string json = good;
    for (std::uint64_t changes = 1 + numbers.below(3); changes > 0; --changes) {
      const std::size_t at = numbers.below(json.size());
      if (numbers.below(3) == 0) json.erase(at, 1 + numbers.below(4));
      else json[at] = static_cast<char>(numbers.below(256));
    }
    const auto read = parsed(json, 50);
    if (!read) continue;
    for (const StoredTensor& tensor : read.value().tensors) {
      ASSERT_LE(tensor.end, 50U);
      ASSERT_EQ(byte_length(tensor.shape, tensor.dtype), tensor.end - tensor.begin);
    }
  }
}

TEST(BlockChecksums, AreThoseOfEachMibHoweverTheBytesArrive) {
  SeededNumbers numbers(test::seed(2));
  std::vector<std::byte> bytes(3 * kChecksumBlock + 12345);
  for (std::byte& one : bytes) one = static_cast<std::byte>(numbers.below(256));
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, kChecksumBlock, kChecksumBlock + 1, bytes.size()}) {
    BlockChecksums checksums;
    for (std::size_t at = 0; at < length;) {
      const std::size_t next = std::min<std::size_t>(length - at, numbers.below(900'000));
      checksums.add(Bytes(bytes).subspan(at, next));
      at += next;
    }
    std::vector<std::uint32_t> expected;
    for (std::size_t at = 0; at < length; at += kChecksumBlock)
      expected.push_back(crc32c(Bytes(bytes).subspan(at, std::min(kChecksumBlock, length - at))));
    EXPECT_EQ(checksums.blocks(), expected) << length;
    EXPECT_EQ(checksums.length(), length);
  }
}

}  // namespace

}  // namespace paceline::checkpoint

namespace paceline::checkpoint::testing {
namespace {

TEST(WriteTensorFile, TheFileHasTheTensorsBytesWhereItsHeaderTells) {
  test::CrashDisk disk;
  disk.make_directory("d").value();
  const SmallCheckpoint checkpoint(7, 100'000);
  const auto& tensors = checkpoint.files[0].tensors;
  const StoredFile stored = write_tensor_file(disk, "d", "f", tensors, {{"step", "7"}}).value();
  const auto file = disk.open("d/f").value();
  EXPECT_EQ(stored.length, file->size());
  const TensorFileHeader header = read_header(*file, "d/f").value();
  EXPECT_EQ(header.metadata.at("step"), "7");
  ASSERT_EQ(header.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& place = header.tensors[i];
    EXPECT_EQ(place.name, tensors[i].key);
    std::vector<std::byte> bytes(place.end - place.begin);
    file->read(header.data_begin + place.begin, bytes).value();
    EXPECT_TRUE(std::ranges::equal(bytes, tensors[i].bytes)) << place.name;
  }
}

TEST(WriteTensorFile, RefusesBytesThatAreNotThoseOfTheShape) {
  test::CrashDisk disk;
  const std::vector<std::byte> bytes(7);
  const std::vector<TensorBytes> wrong = {{"a", Dtype::f32, {2}, bytes}};
  EXPECT_THROW((void)write_tensor_file(disk, "", "f", wrong, {}), Error);
}

}  // namespace

}  // namespace paceline::checkpoint::testing
