#include "rlx/Tools/Table.h"

#include <gtest/gtest.h>

using rlx::tools::Table;

namespace {

TEST(TableTest, NumbersGoRightAndTextLeft) {
  Table table({"name", "ms", "note"});
  table.add({"a", "1.25", "x"});
  table.add({"longer", "100.00", ""});
  table.add({"b", "-", "yes"});
  EXPECT_EQ(table.text(), "name        ms  note\n"
                          "a         1.25  x\n"
                          "longer  100.00\n"
                          "b            -  yes\n");
}

TEST(TableTest, HeadingAlone) { EXPECT_EQ(Table({"one", "two"}).text(), "one  two\n"); }

} // namespace
