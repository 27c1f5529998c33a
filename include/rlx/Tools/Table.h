//===- Table.h - aligned columns for people ---------------------*- C++ -*-===//
#ifndef RLX_TOOLS_TABLE_H
#define RLX_TOOLS_TABLE_H

#include <string>
#include <vector>

namespace rlx::tools {

/// Rows of text put in aligned columns: cells that read as numbers to the right,
/// the others to the left. The first row is the heading.
class Table {
public:
  explicit Table(std::vector<std::string> heading) { rows.push_back(std::move(heading)); }
  /// Adds a row; it has as many cells as the heading.
  void add(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  /// One line a row, each ended by a newline, without trailing blanks.
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows;
};

} // namespace rlx::tools

#endif // RLX_TOOLS_TABLE_H
