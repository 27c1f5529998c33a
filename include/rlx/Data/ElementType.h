//===- ElementType.h - facts about element types ----------------*- C++ -*-===//
#ifndef RLX_DATA_ELEMENTTYPE_H
#define RLX_DATA_ELEMENTTYPE_H

#include "rlx/Data/Plan_generated.h"

#include <cstdint>

namespace rlx {

/// Bytes of one element in memory (I1 takes a byte); 0 for a value that is no type.
constexpr int64_t elementBytes(data::ElementType type) {
  switch (type) {
  case data::ElementType::I1:
  case data::ElementType::I8:
  case data::ElementType::U8:
    return 1;
  case data::ElementType::I16:
  case data::ElementType::U16:
  case data::ElementType::F16:
  case data::ElementType::BF16:
    return 2;
  case data::ElementType::I32:
  case data::ElementType::U32:
  case data::ElementType::F32:
    return 4;
  case data::ElementType::I64:
  case data::ElementType::U64:
  case data::ElementType::F64:
    return 8;
  }
  return 0;
}

/// f16, bf16, f32 or f64.
constexpr bool isFloatType(data::ElementType type) {
  return type == data::ElementType::F16 || type == data::ElementType::BF16 || type == data::ElementType::F32 ||
         type == data::ElementType::F64;
}

/// u8 to u64.
constexpr bool isUnsignedType(data::ElementType type) {
  return type == data::ElementType::U8 || type == data::ElementType::U16 || type == data::ElementType::U32 ||
         type == data::ElementType::U64;
}

/// i8 to i64 or u8 to u64; not i1.
constexpr bool isIntegerType(data::ElementType type) { return !isFloatType(type) && type != data::ElementType::I1; }

/// "f32", "i1", ...: as the dialect and messages spell it.
constexpr const char *elementTypeName(data::ElementType type) {
  constexpr const char *names[] = {"i1",  "i8",  "i16", "i32",  "i64", "u8", "u16",
                                   "u32", "u64", "f16", "bf16", "f32", "f64"};
  return static_cast<unsigned>(type) < 13 ? names[static_cast<unsigned>(type)] : "unknown";
}

} // namespace rlx

#endif // RLX_DATA_ELEMENTTYPE_H
