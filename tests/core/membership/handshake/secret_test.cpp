#include "paceline/core/membership/handshake/secret.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>

#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::membership {
namespace {

class SecretFile : public testing::Test {
 protected:
  ~SecretFile() override { std::filesystem::remove(path); }
  void hold(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("paceline_secret_" + std::to_string(::getpid())))
          .string();
};

TEST(Secret, IsRandomAndItsDigitsComeBack) {
  const Secret one = Secret::random();
  EXPECT_NE(one.key(), Secret::random().key());
  EXPECT_EQ(one.hexadecimal().size(), 64u);
  EXPECT_EQ(Secret::parse(one.hexadecimal()).value().key(), one.key());
  EXPECT_EQ(Secret::parse(one.hexadecimal() + " \n").value().key(), one.key());
  std::string upper = one.hexadecimal();
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(Secret::parse(upper).value().key(), one.key());
}

TEST(Secret, AnythingButSixtyFourDigitsIsRefusedWithoutSayingWhatItWas) {
  const std::string good = Secret::random().hexadecimal();
  for (const std::string& text :
       {std::string(), good.substr(1), good + "0", "g" + good.substr(1), " " + good.substr(1)}) {
    const auto secret = Secret::parse(text);
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().fault, Fault::misuse);
    EXPECT_TRUE(text.empty() || secret.error().what.find(text) == std::string::npos);
  }
}

TEST_F(SecretFile, APrivateFileIsRead) {
  const Secret secret = Secret::random();
  hold(secret.hexadecimal() + "\n");
  EXPECT_EQ(Secret::from_file(path).value().key(), secret.key());
}

TEST_F(SecretFile, AFileThatOthersMayReadIsRefusedWithTheRemedy) {
  for (const mode_t mode : {0640u, 0604u, 0660u, 0601u}) {
    hold(Secret::random().hexadecimal(), mode);
    const auto secret = Secret::from_file(path);
    ASSERT_FALSE(secret);
    EXPECT_EQ(secret.error().what, "the job's secret is unusable: others may read " + path +
                                       " (make it mode 0600); let the launcher provide it");
  }
}

TEST_F(SecretFile, AMissingEmptyOrOverlongFileIsRefused) {
  EXPECT_EQ(Secret::from_file(path).error().fault, Fault::io);
  for (const std::string& text :
       {std::string(), std::string("abc"), Secret::random().hexadecimal() + "00"}) {
    hold(text);
    EXPECT_EQ(Secret::from_file(path).error().fault, Fault::misuse);
  }
  EXPECT_EQ(Secret::from_descriptor(-1).error().fault, Fault::io);
}

TEST(Secret, IsReadFromAnInheritedPipe) {
  const Secret secret = Secret::random();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const transport::FileDescriptor in(ends[0]);
  transport::FileDescriptor out(ends[1]);
  const std::string digits = secret.hexadecimal();
  ASSERT_EQ(::write(out.get(), digits.data(), digits.size()), 64);
  out.reset();
  EXPECT_EQ(Secret::from_descriptor(in.get()).value().key(), secret.key());
}

}  // namespace
}  // namespace paceline::membership
