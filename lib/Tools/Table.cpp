//===- Table.cpp - aligned columns for people -----------------------------===//
#include "rlx/Tools/Table.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace rlx::tools {

static bool readsAsNumber(const std::string &cell) {
  return cell.empty() || cell == "-" || std::isdigit(static_cast<unsigned char>(cell[0])) ||
         (cell[0] == '-' && cell.size() > 1 && std::isdigit(static_cast<unsigned char>(cell[1])));
}

std::string Table::text() const {
  size_t columns = rows.front().size();
  std::vector<size_t> width(columns, 0);
  std::vector<bool> right(columns, rows.size() > 1);
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], rows[r][c].size());
      if (r > 0 && !readsAsNumber(rows[r][c]))
        right[c] = false;
    }
  std::string out;
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      if (c > 0)
        line += "  ";
      line += right[c] ? fmt::format("{:>{}}", row[c], width[c]) : fmt::format("{:<{}}", row[c], width[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

} // namespace rlx::tools
