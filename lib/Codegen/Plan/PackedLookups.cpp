//===- PackedLookups.cpp - lookups into packed weights --------------------===//

#include "PackedLookups.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <optional>

namespace rlx::codegen {

using data::AccessKind;
using data::AccessT;
using data::BufferT;

namespace {

// Sums of products of 64-bit numbers.
using Wide = __int128;

/// A number of rows and one of columns.
struct Place {
  int64_t row = 0, column = 0;
};

/// A lookup in rows and columns of a packed matrix: where it starts, what each loop and each index adds.
struct Lookup {
  Place start;
  std::vector<Place> loops, axes;
};

class LookupReader {
public:
  LookupReader(const BufferT &packed, const ExprTable &exprs)
      : exprs(exprs), rows(static_cast<int64_t>(packed.k)), columns(static_cast<int64_t>(packed.n)),
        rowStride(packed.k_stride), columnStride(packed.n_stride), offset(packed.offset) {}

  /// Nothing where the window is not one of rows and columns whatever the binding is.
  std::optional<Lookup> read(const data::StepT &step, const AccessT &access) {
    if (rows < 1 || columns < 1 || llvm::is_contained(access.broadcast, true))
      return std::nullopt;
    Lookup lookup;
    for (auto [extent, stride] : llvm::zip_equal(step.iteration, access.strides)) {
      std::optional<Place> place = move(extent, stride);
      if (!place)
        return std::nullopt;
      lookup.loops.push_back(*place);
    }
    for (auto [extent, stride] : llvm::zip_equal(access.axis_extents, access.axis_strides)) {
      std::optional<Place> place = move(extent, stride);
      if (!place)
        return std::nullopt;
      lookup.axes.push_back(*place);
    }
    std::optional<Place> start = startOf(access);
    if (!start)
      return std::nullopt;
    lookup.start = *start;
    return lookup;
  }

private:
  std::optional<int64_t> number(uint32_t expr) const { return exprs.expr(expr).constant(); }

  /// What `extent` steps of `stride` in the plain row are in the matrix: along its columns, or along its rows.
  std::optional<Place> move(uint32_t extentExpr, uint32_t strideExpr) {
    std::optional<int64_t> stride = number(strideExpr), extent = number(extentExpr);
    if (stride == 0 || extent == 1)
      return Place{};
    if (!stride || !extent || *extent < 1)
      return std::nullopt;
    auto along = [&](int64_t unit, int64_t count) -> std::optional<int64_t> {
      if (unit == 0 || count < 2 || Wide(*stride) % unit != 0)
        return std::nullopt;
      Wide steps = Wide(*stride) / unit;
      Wide reach = (steps < 0 ? -steps : steps) * (*extent - 1);
      return reach < count ? std::optional(static_cast<int64_t>(steps)) : std::nullopt;
    };
    Place place;
    if (std::optional<int64_t> steps = along(columnStride, columns)) {
      place.column = *steps;
      columnReach.add(*steps, *extent - 1);
    } else if (std::optional<int64_t> steps = along(rowStride, rows)) {
      place.row = *steps;
      rowReach.add(*steps, *extent - 1);
    } else {
      return std::nullopt;
    }
    return place;
  }

  std::optional<Place> startOf(const AccessT &access) {
    std::optional<int64_t> first = number(access.offset);
    if (!first)
      return std::nullopt;
    // In steps of one, the rest in steps of the other; of two ways that lead inside, either is right.
    Wide rest = Wide(*first) - offset;
    for (bool columnsFirst : {true, false}) {
      int64_t unit = columnsFirst ? columnStride : rowStride, other = columnsFirst ? rowStride : columnStride;
      Wide steps = unit ? rest / unit : 0, left = unit ? rest % unit : rest;
      if (left != 0 && (other == 0 || left % other != 0))
        continue;
      Wide otherSteps = left ? left / other : 0;
      Wide row = columnsFirst ? otherSteps : steps, column = columnsFirst ? steps : otherSteps;
      if (rowReach.isInside(row, rows) && columnReach.isInside(column, columns))
        return Place{static_cast<int64_t>(row), static_cast<int64_t>(column)};
    }
    return std::nullopt;
  }

  const ExprTable &exprs;
  const int64_t rows, columns, rowStride, columnStride, offset;
  /// How far the loops and indices lead from the start.
  struct Reach {
    Wide low = 0, high = 0;
    void add(Wide step, Wide times) { (step < 0 ? low : high) += step * times; }
    bool isInside(Wide start, Wide count) const { return start + low >= 0 && start + high < count; }
  } rowReach, columnReach;
};

/// The accesses to one weight in its plain form; nothing where one of them is no lookup of loops or reductions.
std::optional<std::vector<std::pair<const data::StepT *, AccessT *>>> lookupsOf(uint32_t buffer,
                                                                                const data::PlanTemplateT &plan) {
  for (const auto &output : plan.outputs)
    if (output->buffer == buffer)
      return std::nullopt;
  std::vector<std::pair<const data::StepT *, AccessT *>> found;
  auto isIt = [&](const AccessT &access) { return access.kind != AccessKind::Iota && access.buffer == buffer; };
  for (const auto &step : plan.steps) {
    bool fits = step->family == data::Family::Loops || step->family == data::Family::Reduce;
    for (const auto *accesses : {&step->inputs, &step->outputs}) {
      for (const auto &access : *accesses) {
        if (llvm::any_of(access->indices, [&](const auto &index) { return isIt(*index); }))
          return std::nullopt;
        if (!isIt(*access))
          continue;
        if (!fits || access->kind != AccessKind::Indexed)
          return std::nullopt;
        found.emplace_back(step.get(), access.get());
      }
    }
  }
  return found;
}

void rewrite(AccessT &access, uint32_t packed, const Lookup &lookup, ExprTable &exprs) {
  access.buffer = packed;
  access.panels = true;
  access.offset = exprs.id(DimExpr(lookup.start.row));
  access.column = exprs.id(DimExpr(lookup.start.column));
  access.strides.clear();
  access.axis_strides.clear();
  for (const Place &place : lookup.loops) {
    access.strides.push_back(exprs.id(DimExpr(place.row)));
    access.column_strides.push_back(exprs.id(DimExpr(place.column)));
  }
  for (const Place &place : lookup.axes) {
    access.axis_strides.push_back(exprs.id(DimExpr(place.row)));
    access.axis_columns.push_back(exprs.id(DimExpr(place.column)));
  }
  access.broadcast.clear();
  access.extents.clear();
}

} // namespace

void readLookupsFromPanels(data::PlanTemplateT &plan, ExprTable &exprs) {
  for (uint32_t plain = 0; plain < plan.buffers.size(); ++plain) {
    if (plan.buffers[plain]->kind != data::BufferKind::Weight ||
        plan.buffers[plain]->layout != data::PackedLayout::Strided)
      continue;
    std::vector<uint32_t> packed;
    for (uint32_t i = 0; i < plan.buffers.size(); ++i)
      if (plan.buffers[i]->kind == data::BufferKind::Weight &&
          plan.buffers[i]->layout == data::PackedLayout::Panels16 && plan.buffers[i]->name == plan.buffers[plain]->name)
        packed.push_back(i);
    if (packed.empty())
      continue;
    auto accesses = lookupsOf(plain, plan);
    if (!accesses)
      continue;
    // All or none: one access to the plain form keeps it in memory.
    std::vector<std::pair<uint32_t, Lookup>> lookups;
    for (auto [step, access] : *accesses)
      for (uint32_t candidate : packed)
        if (std::optional<Lookup> lookup = LookupReader(*plan.buffers[candidate], exprs).read(*step, *access)) {
          lookups.emplace_back(candidate, std::move(*lookup));
          break;
        }
    if (lookups.size() != accesses->size())
      continue;
    for (size_t i = 0; i < lookups.size(); ++i)
      rewrite(*(*accesses)[i].second, lookups[i].first, lookups[i].second, exprs);
  }
}

} // namespace rlx::codegen
